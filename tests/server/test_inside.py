"""The server without a socket gives the same answers."""

import threading

from headwise.server.embedded.in_process import inside
from headwise.server.payloads.array_pack import unpack
from tests.server.models import TEXT


def test_asked_in_the_same_process_it_answers_the_same(opened):
    heard, done = [], threading.Event()

    def listen(name, data):
        heard.append((name, data["state"]))
        if data["state"] == "done":
            done.set()

    server = inside([opened["llama"]], listen)
    try:
        session = server.session()
        assert server.ask("GET", "/api/state").data["may_write"] is True
        run = server.ask("POST", "/api/runs", {"session": session, "model": "llama", "text": TEXT}).data
        found = server.ask("GET", f"/api/runs/{run['id']}/weights/0/0?rows=3:4")
        assert (found.status, found.type) == (200, "application/octet-stream")
        assert unpack(found.body)["arrays"]["weights"].tolist()[0][:4] == opened["llama"].run(TEXT).weights(0, 0)[3, :4].tolist()
        assert server.ask("GET", "/api/nothing").status == 404
        answers = []
        got = threading.Event()
        server.later("POST", "/api/jobs", {"session": session, "kind": "importance", "run": run["id"]}, lambda reply: (answers.append(reply), got.set()))
        assert got.wait(20) and answers[0].status == 202 and done.wait(20) and heard[-1] == ("job", "done")
    finally:
        server.close()
    assert not server.thread.is_alive()

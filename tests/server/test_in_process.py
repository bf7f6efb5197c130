"""The server without a socket gives the same answers."""

import threading

from headwise.server.embedded.in_process import in_process_server
from headwise.server.payloads.tensor_payload import from_safetensors
from tests.server.models import TEXT


def test_asked_in_the_same_process_it_answers_the_same(opened):
    events, done = [], threading.Event()

    def listen(name, data):
        events.append((name, data["state"]))
        if data["state"] == "done":
            done.set()

    server = in_process_server([opened["llama"]], listen)
    try:
        session = server.session()
        assert server.request("GET", "/api/state").data["may_write"] is True
        run = server.request("POST", "/api/runs", {"session": session, "model": "llama", "text": TEXT}).data
        found = server.request("GET", f"/api/runs/{run['id']}/weights/0/0?rows=3:4")
        assert (found.status, found.type) == (200, "application/octet-stream")
        assert from_safetensors(found.body)["arrays"]["weights"].tolist()[0][:4] == opened["llama"].run(TEXT).weights(0, 0)[3, :4].tolist()
        assert server.request("GET", "/api/nothing").status == 404
        answers = []
        got = threading.Event()
        server.request_later(
            "POST", "/api/jobs", {"session": session, "kind": "importance", "run": run["id"]}, lambda reply: (answers.append(reply), got.set())
        )
        assert got.wait(20) and answers[0].status == 202 and done.wait(20) and events[-1] == ("job", "done")
    finally:
        server.close()
    assert not server.thread.is_alive()

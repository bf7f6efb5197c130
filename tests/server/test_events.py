"""A real server on a real port: events as they come, and what a closed tab leaves behind."""

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest

import headwise as hw
from headwise.server.serve import Server, application, host_names, listening_socket, uvicorn_config
from headwise.server.state import sessions as sessions_module
from headwise.server.state.app_state import ServerSettings
from tests.server.conftest import TOKEN
from tests.server.models import TEXT


@contextmanager
def listening(**settings):
    """A server in a thread: its port and its state."""
    with listening_socket("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        guard, state = application(ServerSettings(token=TOKEN, port=port, **settings))
        server = Server(uvicorn_config(guard), state)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            yield port, state
        finally:
            server.handle_exit(2, None)
            thread.join(20)
            assert not thread.is_alive()


def ask(port, method, path, body=None, token=True):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, None if body is None else json.dumps(body), {"X-Headwise-Token": TOKEN} if token else {})
    answer = connection.getresponse()
    data = json.loads(answer.read())
    connection.close()
    return answer.status, data


class Stream:
    """An event stream that is read as it comes."""

    def __init__(self, port, session):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.connection.request("GET", f"/api/events?session={session}")
        self.answer = self.connection.getresponse()

    def next(self, name):
        """The data of the next event of this name."""
        event = None
        while line := self.answer.readline().decode():
            if line.startswith("event: "):
                event = line[7:].strip()
            if line.startswith("data: ") and event == name:
                return json.loads(line[6:])
        raise AssertionError("the stream ended")

    def close(self):
        self.answer.close()
        self.connection.close()


def test_a_tab_gets_events_of_its_job_and_of_models_and_is_freed_when_closed(opened, checkpoints, monkeypatch):
    monkeypatch.setattr(sessions_module, "GRACE", 0.2)
    monkeypatch.setattr(sessions_module, "HEARTBEAT", 0.1)
    with listening(models=[opened["llama"], str(checkpoints["bert"])]) as (port, state):
        session = ask(port, "POST", "/api/sessions")[1]["session"]
        stream = Stream(port, session)
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        ask(port, "POST", f"/api/models/{checkpoints['bert'].name}/open")
        status, run = ask(port, "POST", "/api/runs", {"session": session, "model": "llama", "text": TEXT})
        assert status == 200
        status, job = ask(port, "POST", "/api/jobs", {"session": session, "kind": "importance", "run": run["id"]})
        events = [stream.next("job")]
        while events[-1]["state"] == "running":
            events.append(stream.next("job"))
        assert (
            status == 202
            and {one["id"] for one in events} == {job["id"]}
            and events[-1]["state"] == "done"
            and [one["done"] for one in events[:3]] == [1, 2, 3]
        )
        stream.close()
        end = time.monotonic() + 60
        while state.runs.runs and time.monotonic() < end:
            time.sleep(0.05)
        assert not state.runs.runs and not state.sessions.sessions


def test_the_opening_of_a_model_is_an_event(checkpoints):
    with listening(models=[], folder=checkpoints["bert"].parent) as (port, _):
        stream = Stream(port, ask(port, "POST", "/api/sessions")[1]["session"])
        ask(port, "POST", "/api/models/bert/open")
        assert stream.next("model")["state"] == "loading"
        data = stream.next("model")
        assert (data["id"], data["state"], data["layers"]) == ("bert", "ready", 2)
        stream.close()


def test_events_of_no_session(opened):
    with listening(models=[]) as (port, _):
        assert ask(port, "GET", "/api/events?session=s-0")[1]["error"]["kind"] == "NotFound"


def test_a_stopped_server_lets_its_streams_end(opened):
    with listening(models=[]) as (port, _):
        stream = Stream(port, ask(port, "POST", "/api/sessions")[1]["session"])
    assert b"hello" in stream.answer.read()
    stream.close()


def test_a_port_that_is_taken_is_reported():
    with (
        listening_socket("127.0.0.1", 0) as taken,
        pytest.raises(hw.HeadwiseError, match=r"Cannot listen at 127.0.0.1:\d+ \(Address already in use\)"),
    ):
        listening_socket("127.0.0.1", taken.getsockname()[1])


def test_without_a_port_the_next_free_one_is_taken(monkeypatch):
    import headwise.server.serve as run

    with listening_socket("127.0.0.1", 0) as taken:
        monkeypatch.setattr(run, "DEFAULT_PORT", taken.getsockname()[1])
        with listening_socket("127.0.0.1", None) as other:
            assert taken.getsockname()[1] < other.getsockname()[1] < taken.getsockname()[1] + 20


def test_names_of_an_address():
    assert host_names("0.0.0.0") == (("127.0.0.1", "localhost", "[::1]", socket.gethostname()), True)
    assert host_names("10.0.0.7")[0][-1] == "10.0.0.7" and not host_names("10.0.0.7")[1]
    assert host_names("fe80::1")[0][-1] == "[fe80::1]"

"""A real server on a real port: events as they come, and what a closed tab leaves behind."""

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest

import headwise as hw
from headwise.server.serve import Server, application, bound, configured, hosts_of
from headwise.server.state import sessions as hubs
from headwise.server.state.app_state import Settings
from tests.server.conftest import TOKEN
from tests.server.models import TEXT


@contextmanager
def listening(**settings):
    """A server in a thread: its port and its desk."""
    with bound("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        guard, desk = application(Settings(token=TOKEN, port=port, **settings))
        server = Server(configured(guard), desk)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            yield port, desk
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


def test_a_tab_hears_of_its_job_and_of_models_and_is_freed_when_closed(opened, checkpoints, monkeypatch):
    monkeypatch.setattr(hubs, "GRACE", 0.2)
    monkeypatch.setattr(hubs, "BEAT", 0.1)
    with listening(models=[opened["llama"], str(checkpoints["bert"])]) as (port, desk):
        session = ask(port, "POST", "/api/sessions")[1]["session"]
        stream = Stream(port, session)
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        ask(port, "POST", f"/api/models/{checkpoints['bert'].name}/open")
        status, run = ask(port, "POST", "/api/runs", {"session": session, "model": "llama", "text": TEXT})
        assert status == 200
        status, job = ask(port, "POST", "/api/jobs", {"session": session, "kind": "importance", "run": run["id"]})
        heard = [stream.next("job")]
        while heard[-1]["state"] == "running":
            heard.append(stream.next("job"))
        assert (
            status == 202 and {one["id"] for one in heard} == {job["id"]} and heard[-1]["state"] == "done" and [one["done"] for one in heard[:3]] == [1, 2, 3]
        )
        stream.close()
        end = time.monotonic() + 60
        while desk.keep.runs and time.monotonic() < end:
            time.sleep(0.05)
        assert not desk.keep.runs and not desk.hub.sessions


def test_a_model_s_coming_is_told(checkpoints):
    with listening(models=[], folder=checkpoints["bert"].parent) as (port, _):
        stream = Stream(port, ask(port, "POST", "/api/sessions")[1]["session"])
        ask(port, "POST", "/api/models/bert/open")
        assert stream.next("model")["state"] == "loading"
        told = stream.next("model")
        assert (told["id"], told["state"], told["layers"]) == ("bert", "ready", 2)
        stream.close()


def test_events_of_no_session(opened):
    with listening(models=[]) as (port, _):
        assert ask(port, "GET", "/api/events?session=s-0")[1]["error"]["kind"] == "NotFound"


def test_a_stopped_server_lets_its_streams_end(opened):
    with listening(models=[]) as (port, _):
        stream = Stream(port, ask(port, "POST", "/api/sessions")[1]["session"])
    assert b"hello" in stream.answer.read()
    stream.close()


def test_a_port_that_is_taken_is_said():
    with (
        bound("127.0.0.1", 0) as taken,
        pytest.raises(hw.HeadwiseError, match=r"address must be one that can be listened at, got 127.0.0.1:\d+ \(Address already in use\)"),
    ):
        bound("127.0.0.1", taken.getsockname()[1])


def test_without_a_port_the_next_free_one_is_taken(monkeypatch):
    import headwise.server.serve as run

    with bound("127.0.0.1", 0) as taken:
        monkeypatch.setattr(run, "PORT", taken.getsockname()[1])
        with bound("127.0.0.1", None) as other:
            assert taken.getsockname()[1] < other.getsockname()[1] < taken.getsockname()[1] + 20


def test_names_of_an_address():
    assert hosts_of("0.0.0.0") == (("127.0.0.1", "localhost", "[::1]", socket.gethostname()), True)
    assert hosts_of("10.0.0.7")[0][-1] == "10.0.0.7" and not hosts_of("10.0.0.7")[1]
    assert hosts_of("fe80::1")[0][-1] == "[fe80::1]"

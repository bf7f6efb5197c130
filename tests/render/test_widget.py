"""The page in a notebook: questions come as messages and are answered as the server would."""

import json
import sys
import time

import pytest
import torch

import headwise as hw
from headwise.server.payloads.tensor_payload import from_safetensors
from tests.server import models

pytest.importorskip("anywidget", reason="anywidget is not installed: pip install 'headwise[notebook]'")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from headwise.models.loading.open_model import open_model

    return open_model(models.write(tmp_path_factory.mktemp("widget") / "llama", "llama"))


class Front:
    """The browser's end of the channel."""

    def __init__(self, widget):
        self.widget, self.heard, self.last = widget, [], 0
        widget.send = lambda content, buffers=None: self.heard.append((content, buffers))

    def ask(self, method, path, body=None, seconds=30):
        self.last += 1
        self.widget._handle_custom_msg({"id": self.last, "method": method, "path": path, "body": body}, [])
        return self.wait(lambda content: content.get("id") == self.last, seconds)

    def wait(self, fits, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = next((one for one in self.heard if fits(one[0])), None)
            if found is not None:
                content, buffers = found
                data = buffers[0] if buffers else b""
                return content, json.loads(data) if content.get("type") == "application/json" else data
            time.sleep(0.01)
        raise AssertionError(self.heard)


def test_a_run_is_shown_with_its_own_numbers(model):
    run = model.run(models.TEXT)
    widget = run.show()
    try:
        front = Front(widget)
        assert widget.get_state()["address"] == "model" and widget.session.startswith("s-")
        _, state = front.ask("GET", "/api/state")
        assert state["may_write"] and state["texts"][0]["text"] == models.TEXT and state["models"][0]["state"] == "ready"
        answer, told = front.ask("POST", "/api/runs", {"session": widget.session, "model": state["models"][0]["id"], "text": models.TEXT})
        assert answer["status"] == 200 and told["id"] == "r-first"
        _, data = front.ask("GET", "/api/runs/r-first/weights/2/1")
        assert from_safetensors(data)["arrays"]["weights"][10].tolist() == run.weights(2, 1)[10].tolist()
        front.ask("POST", "/api/jobs", {"session": widget.session, "kind": "importance", "run": told["id"]})
        content, _ = front.wait(lambda content: content.get("event") == "job" and content["data"]["state"] == "done")
        assert content["data"]["kind"] == "importance"
        assert front.ask("GET", "/api/runs/r-none/grid")[0]["status"] == 410
    finally:
        thread = widget.server.thread
        widget.close()
    assert widget.server is None and not thread.is_alive()
    widget.close()


def test_a_model_is_shown_on_a_text(model):
    widget = model.show("the dog ran")
    try:
        front = Front(widget)
        _, state = front.ask("GET", "/api/state")
        assert state["texts"][0] == {"id": "first", "title": "the dog ran", "text": "the dog ran"} and len(state["texts"]) > 3
    finally:
        widget.close()


def test_the_five_moves_need_no_model():
    widget = hw.five_moves_widget()
    try:
        assert widget.get_state()["address"] == "moves;h=2"
        assert Front(widget).ask("GET", "/api/moves")[1]["cases"]["1"]["tie_heads"]["holds"]
    finally:
        widget.close()


def test_the_front_end_is_the_page_s_own(model):
    from headwise.server.app import frontend_folder

    widget = hw.five_moves_widget()
    try:
        assert widget._esm == (frontend_folder() / "bundle.js").read_text() or str(widget._esm) == (frontend_folder() / "bundle.js").read_text()
    finally:
        widget.close()


def test_without_anywidget_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(hw.HeadwiseError, match=r"needs the package anywidget, which is not installed. Run `pip install 'headwise\[notebook\]'`"):
        hw.five_moves_widget()


def test_a_run_without_its_model_cannot_be_shown():
    run = hw.from_attentions([torch.softmax(torch.randn(1, 2, 4, 4), -1)])
    with pytest.raises(hw.HeadwiseError, match="This run was loaded without its model"):
        run.show()

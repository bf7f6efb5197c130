"""A model that is being opened shows the view stored at an earlier start: only while nothing has changed, and compared with its own numbers."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import pytest

from headwise.cli.app import main
from headwise.errors import CheckpointError
from headwise.server.payloads.tensor_payload import from_safetensors, to_safetensors
from headwise.server.state import first_view_cache as first_views
from headwise.server.state import model_library as library
from headwise.server.state.sample_texts import TEXTS
from headwise.storage import environment
from headwise.storage.file_stamps import stamps
from headwise.storage.source_files import Origin
from tests.server.conftest import serving

TEXT = TEXTS["cat"]["text"]
PATHS = ("grid", "writes", "thumbnails")
PATIENCE = 240  # seconds: the first to open a model imports all that it needs


@pytest.fixture
def folder(checkpoints, tmp_path, monkeypatch):
    """A checkpoint of its own, and a cache of its own."""
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    return shutil.copytree(checkpoints["llama"], tmp_path / "mine")


@pytest.fixture
def gate(monkeypatch):
    """Models are opened only when it is set."""
    found, plain = threading.Event(), library.ModelLibrary._open
    monkeypatch.setattr(library.ModelLibrary, "_open", lambda self, entry: found.wait(PATIENCE) and plain(self, entry))
    found.set()
    return found


def ready(page, state: str = "ready") -> dict:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        (found,) = page.get("/api/state").json()["models"]
        if found["state"] == state:
            return found
        time.sleep(0.2)
    raise AssertionError(found)


def first_start(folder) -> tuple[dict, dict, dict[str, bytes]]:
    """A first start: the facts of the model and of the run, and the responses of the first view."""
    with serving(models=[str(folder)]) as page:
        model, run = ready(page), page.read("mine", TEXT)
        answers = {path: page.get(f"/api/runs/{run['id']}/{path}").content for path in PATHS}
        end = time.monotonic() + PATIENCE
        while first_views.load(str(folder)) is None and time.monotonic() < end:
            time.sleep(0.02)
    assert first_views.load(str(folder)) is not None
    return model, run, answers


def test_the_next_start_shows_the_same_at_once_and_the_rest_when_the_model_is_open(folder, gate):
    model, run, answers = first_start(folder)
    gate.clear()
    with serving(models=[str(folder)]) as page:
        assert page.get("/api/state").json()["models"] == [model]
        again = page.read("mine", TEXT)
        assert page.state.models.get("mine").model is None
        assert {**again, "id": ""} == {**run, "id": "", "from_earlier_start": True}
        assert {path: page.get(f"/api/runs/{again['id']}/{path}").content for path in PATHS} == answers
        assert page.read("mine", TEXT)["id"] == again["id"]
        assert page.get(f"/api/edits/mine?session={page.session}").json()["of_tensors"] == model["tensors"]
        waited: list = []
        asking = [
            threading.Thread(target=lambda path=path: waited.append(page.get(path)))
            for path in (f"/api/runs/{again['id']}/heads/2/4", "/api/claims?model=mine")
        ]
        for one in asking:
            one.start()
        time.sleep(0.2)
        assert not waited and page.state.models.get("mine").model is None
        gate.set()
        for one in asking:
            one.join(PATIENCE)
        assert [one.status_code for one in waited] == [200, 200]
        assert page.get(f"/api/runs/{again['id']}/proof").json()["passed"]
        assert "from_earlier_start" not in page.get(f"/api/runs/{again['id']}").json()
        assert page.state.runs.runs[again["id"]].run.places
        assert {path: page.get(f"/api/runs/{again['id']}/{path}").content for path in PATHS} == answers


def test_another_text_waits_for_the_model(folder, gate):
    first_start(folder)
    gate.clear()
    with serving(models=[str(folder)]) as page:
        threading.Timer(0.2, gate.set).start()
        assert page.read("mine", "the cat ran")["parts"][0]["queries"] == 3


@pytest.mark.parametrize("what", ["grid", "thumbnails"])
def test_numbers_that_are_not_the_model_s_are_withdrawn(folder, gate, what):
    _, _, answers = first_start(folder)
    found = first_views.load(str(folder))
    if what == "grid":
        wrong = {name: values + (name == "entropy") * np.float32(0.01) for name, values in found.arrays["grid"].items()}
        changed = replace(found, arrays={**found.arrays, "grid": wrong})
    else:
        header = from_safetensors(found.thumbnails)
        mass = header.pop("arrays")["mass"].copy()
        mass[1, 2, 5, 3] = 200 if mass[1, 2, 5, 3] < 100 else 20
        changed = replace(found, thumbnails=to_safetensors({"mass": mass}, header))
    first_views.store(str(folder), Origin(folder, stamps(folder)), changed)
    gate.clear()
    with serving(models=[str(folder)]) as page:
        wrong = page.read("mine", TEXT)["id"]
        assert page.get(f"/api/runs/{wrong}/{what}").content != answers[what]
        gate.set()
        gone = page.get(f"/api/runs/{wrong}/proof")
        assert (gone.status_code, gone.json()["error"]["kind"]) == (410, "RunGone")
        assert first_views.load(str(folder)) is None
        right = page.read("mine", TEXT)["id"]
        assert page.get(f"/api/runs/{right}/{what}").content == answers[what]


def test_a_model_that_can_no_longer_be_opened_is_reported(folder, gate, monkeypatch):
    first_start(folder)
    gate.clear()
    with serving(models=[str(folder)]) as page:
        run = page.read("mine", TEXT)["id"]

        def broken(source):
            raise CheckpointError("a checkpoint must be whole, got half of it.")

        monkeypatch.setattr("headwise.models.loading.open_model.open_model", broken)
        gate.set()
        message = "a checkpoint must be whole, got half of it."
        assert ready(page, "failed")["reason"] == message
        assert page.get(f"/api/runs/{run}").status_code == 410
        again = page.post("/api/runs", session=page.session, model="mine", text=TEXT)
        assert (again.status_code, again.json()["error"]) == (503, {"kind": "ModelFailed", "message": message})


@pytest.mark.parametrize("change", ["weights", "another file", "setting", "library", "code", "threads", "half"])
def test_whatever_could_change_a_number_invalidates_the_stored_view(folder, monkeypatch, change):
    first_start(folder)
    path = first_views.CACHE.path(first_views._name(str(folder)))
    if change == "weights":
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes())
    elif change == "another file":
        (folder / "adapter.json").write_text("{}")
    elif change == "setting":
        monkeypatch.setenv("HEADWISE_ISA", "scalar")
    elif change == "library":
        monkeypatch.setattr(environment, "library_versions", lambda: {"torch": "0"})
    elif change == "code":
        monkeypatch.setattr(environment, "package_code", lambda: "other")
    elif change == "threads":
        monkeypatch.setenv("OMP_NUM_THREADS", "77")
    else:
        path.write_text(path.read_text()[:-100])
    assert first_views.load(str(folder)) is None


def test_a_text_that_somebody_wrote_is_never_stored(folder):
    with serving(models=[str(folder)]) as page:
        ready(page)
        run = page.read("mine", "a dog that nobody else knows of")
        page.get(f"/api/runs/{run['id']}/thumbnails")
        assert not page.state.background_tasks and not page.state.models.get("mine").first_view_stored
    assert first_views.load(str(folder)) is None


def test_a_disk_that_cannot_be_written_stores_nothing(folder, monkeypatch):
    first_start(folder)
    found = first_views.load(str(folder))
    first_views.remove(str(folder))
    origin = Origin(folder, stamps(folder))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headwise.storage.cache.write_atomically", full)
    first_views.store(str(folder), origin, found)
    assert first_views.load(str(folder)) is None


def test_a_view_that_is_too_large_is_not_stored(folder, monkeypatch):
    first_start(folder)
    found = first_views.load(str(folder))
    first_views.remove(str(folder))
    monkeypatch.setattr(first_views, "LARGEST", 1000)
    first_views.store(str(folder), Origin(folder, stamps(folder)), found)
    assert first_views.load(str(folder)) is None


def test_a_prepared_view_is_shown_at_the_first_start(folder, gate, capsys, monkeypatch):
    assert main(["look", str(folder), TEXT]) == 0
    assert first_views.load(str(folder)) is None  # only serve prepares it
    assert main(["serve", str(folder), "--prepare"]) == 0
    assert "is stored: the page shows it at once." in " ".join(capsys.readouterr().out.split())
    with monkeypatch.context() as patched:
        patched.setattr("headwise.models.loading.open_model.open_model", lambda source: pytest.fail("a view that is still valid is not computed again"))
        assert main(["serve", str(folder), "--prepare", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"prepared": {str(folder): True}}
    kept = first_views.load(str(folder))
    model, run, answers = first_start(folder)
    assert {**kept.facts, "milliseconds": 0} == {
        **{name: value for name, value in run.items() if name not in ("id", "model", "from_earlier_start")},
        "milliseconds": 0,
    }
    assert kept.thumbnails == answers["thumbnails"] and set(kept.arrays) == {"grid", "writes"}
    assert {**model, **kept.model} == model
    capsys.readouterr()


def test_in_a_process_of_its_own(folder):
    """Where nothing has been imported yet: what a request imports must not meet what the opening of the model imports in its thread."""
    first, second = (_asked_at_once(folder) for _ in range(2))
    assert [status for status, _ in first[:4]] == [503] * 4, "never seen"
    assert [status for status, _ in second] == [200] * len(second)
    assert second[-1][1]["passed"]


def _asked_at_once(folder) -> list[tuple[int, dict]]:
    """Start a server; ask it for the first view and more at once, then, when the model is open, for the proof: each status and answer."""
    command = [sys.executable, "-m", "headwise", "serve", str(folder), "--port", "0", "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}) as process:
        try:
            data = ""
            while not data.endswith("}\n"):
                data += (line := process.stdout.readline())
                assert line, "the server has ended"
            port = urlsplit(json.loads(data)["address"]).port
            session = _ask(port, "POST", "/api/sessions")[1]["session"]
            text = {"session": session, "model": "mine", "text": TEXT}
            status, run = _ask(port, "POST", "/api/runs", text)
            found = [(status, run)] * 4
            if status == 200:
                with ThreadPoolExecutor(4) as pool:
                    paths = [f"/api/runs/{run['id']}/{what}" for what in ("heads/1/2", "weights/1/2", "tiles/1/2/1/0/0")]
                    found = list(pool.map(lambda path: _ask(port, "GET", path), [*paths, "/api/claims?model=mine", "/api/roles"]))
            while status != 200:
                status, run = _ask(port, "POST", "/api/runs", text)
            _ask(port, "GET", f"/api/runs/{run['id']}/thumbnails")
            found.append(_ask(port, "GET", f"/api/runs/{run['id']}/proof"))
            end = time.monotonic() + PATIENCE
            while first_views.load(str(folder)) is None and time.monotonic() < end:
                time.sleep(0.05)
            return found
        finally:
            process.terminate()


def _ask(port: int, method: str, path: str, body: dict | None = None) -> tuple[int, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, json.loads(data) if answer.headers["content-type"].startswith("application/json") else {}

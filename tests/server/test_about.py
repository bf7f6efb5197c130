"""State, models that come and fail, sessions, the five moves, what can be checked."""

import time

import pytest

import headwise as hw
from headwise.conformance.kill_matrix import UNMUTATED
from headwise.server.state import sessions as sessions_module
from headwise.server.state.sessions import Sessions
from tests.server.conftest import serving
from tests.server.models import TEXT


def until(page, model, state):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = next(one for one in page.get("/api/state").json()["models"] if one["id"] == model)
        if found["state"] == state:
            return found
        time.sleep(0.02)
    raise AssertionError(found)


def test_the_state_has_models_texts_and_limits(page):
    data = page.get("/api/state").json()
    llama = data["models"][0]
    assert data["version"] == hw.__version__ and data["compare"] is None and "importance" in data["can"]
    assert {name: llama[name] for name in ("id", "state", "class", "kind", "layers", "heads", "key_heads", "width", "head_width", "output")} == {
        "id": "llama", "state": "ready", "class": "LlamaForCausalLM", "kind": "decoder", "layers": 3, "heads": 6, "key_heads": 2, "width": 42, "head_width": 10,
        "output": "next_token",
    }  # fmt: skip
    assert [one["kind"] for one in data["models"]] == ["decoder", "encoder", "encoder-decoder"]
    assert data["limits"]["text_characters"] == 400_000 and any("The cat sat" in text["text"] for text in data["texts"])


def test_models_are_opened_by_name_and_one_that_fails_leaves_the_others(checkpoints, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with serving(models=[str(checkpoints["llama"]), str(tmp_path), str(checkpoints["bert"])]) as page:
        assert until(page, "llama", "ready")["layers"] == 3
        failed = until(page, tmp_path.name, "failed")
        assert "must" in failed["reason"] and "layers" not in failed
        until(page, "bert", "ready")
        answer = page.post("/api/runs", session=page.session, model=tmp_path.name, text=TEXT)
        assert (answer.status_code, answer.json()["error"]) == (503, {"kind": "ModelFailed", "message": failed["reason"]})
        assert page.read("bert")["model"] == "bert"
        assert page.client.post(f"/api/models/{tmp_path.name}/open").json()["state"] == "loading"
        until(page, tmp_path.name, "failed")


def test_models_of_a_folder_wait_until_they_are_requested(checkpoints):
    with serving(models=[], folder=checkpoints["llama"].parent) as page:
        assert {one["id"]: one["state"] for one in page.get("/api/state").json()["models"]} == {"bert": "waiting", "llama": "waiting", "t5": "waiting"}
        answer = page.post("/api/runs", session=page.session, model="bert", text=TEXT)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "ModelLoading") and "Wait for it" in answer.text
        until(page, "bert", "ready")
        assert page.read("bert")["output"]["kind"] == "embedding"
        assert page.client.post("/api/models/../etc/open").status_code == 404


def test_two_models_of_one_name_have_two_ids(opened):
    with serving(models=[opened["llama"], opened["llama"]], compare=("llama", "llama")) as page:
        assert [one["id"] for one in page.get("/api/state").json()["models"]] == ["llama", "llama-2"]
        assert page.get("/api/state").json()["compare"] == {"base": "llama", "tuned": "llama"}


def test_the_five_moves_as_they_are(page):
    data = page.get("/api/moves").json()
    assert data["heads"] == [1, 2, 4] and [move["code"] for move in data["moves"]] == ["M1", "M2", "M3", "M4", "M5"]
    for attack in data["attacks"]:
        for h in (1, 2, 4):
            assert attack["breaks"][str(h)] == list(hw.five_moves(h, attack=attack["name"]).fallen)
    case = data["cases"]["2"]["tie_heads"]
    assert case["matrices"] == hw.five_moves(2, attack="tie_heads").as_dict()["matrices"] and case["verdicts"]["M5"]["state"] == "falls"
    assert data["cases"]["4"][""]["holds"] and float(data["cases"]["4"][""]["verdicts"]["M3"]["bound"]) < 1e-25


def test_what_can_be_checked(opened):
    with serving(models=[], subjects=["my.module:Attention"]) as page:
        found = {one["name"]: one for one in page.get("/api/check").json()["subjects"]}
        assert found["torch_sdpa"]["installed"] and found["torch_sdpa"]["statement"]
        assert found["headwise:attend"]["statement"] == "headwise's own" and found["my.module:Attention"]["statement"] == "named at start"


def test_the_kill_matrix_that_came_with_this_version(page):
    data = page.get("/api/kill-matrix").json()
    rows = {row["attack"]: row for row in data["rows"]}
    assert data["complete"] and rows["tie_heads"]["caught"] == {"heads_are_independent": ""} and rows[UNMUTATED]["honest"] and len(data["invariants"]) >= 30


def test_unknown_paths_and_methods(page):
    answer = page.get("/api/nothing")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "NotFound") and "GET /api/nothing" in answer.text
    assert page.client.put("/api/state").status_code == 405


def test_an_internal_error_is_reported_and_the_server_goes_on(page):
    page.state.models.entries = lambda: 1 / 0
    answer = page.get("/api/state")
    assert answer.status_code == 500 and answer.json()["error"]["kind"] == "ZeroDivisionError" and "Please report this" in answer.text
    assert page.read()["model"] == "llama"


def test_a_session_without_a_stream_is_freed_with_its_runs(page, monkeypatch):
    id, cache = page.read()["id"], page.state.runs
    monkeypatch.setattr(sessions_module, "PATIENCE", 0.0)
    end = time.monotonic() + 60
    while cache.runs and time.monotonic() < end:
        time.sleep(0.05)
        page.get("/api/moves")
    assert not cache.runs and page.state.sessions.sessions == {}
    assert page.get(f"/api/runs/{id}").status_code == 410
    answer = page.post("/api/runs", session=page.session, model="llama", text=TEXT)
    assert answer.status_code == 404 and answer.json()["error"]["message"].startswith("There is no session")


def test_a_session_that_makes_requests_or_is_busy_lives(monkeypatch):
    freed = []
    sessions = Sessions(freed.append)
    quiet, asking, busy = sessions.open(), sessions.open(), sessions.open()
    monkeypatch.setattr(sessions_module, "PATIENCE", 0.1)
    with sessions.busy(busy):
        time.sleep(0.15)
        sessions.get(asking.id)
        sessions.sweep()
        assert freed == [quiet.id] and set(sessions.sessions) == {asking.id, busy.id}
    sessions.sweep()
    assert freed == [quiet.id]
    time.sleep(0.15)
    sessions.sweep()
    assert not sessions.sessions


def test_sessions_have_a_limit(monkeypatch):
    monkeypatch.setattr(sessions_module, "MAX_SESSIONS", 1)
    sessions = Sessions(lambda session: None)
    sessions.open()
    with pytest.raises(hw.HeadwiseError, match="There can be at most 1 sessions. Close some tabs."):
        sessions.open()

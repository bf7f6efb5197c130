"""Claims over HTTP: all of them in their order, cards as soon as they are measured, and work that can be called off."""

import time

import pytest

from headwise.experiments.card_json import card_to_json
from headwise.experiments.investigate import all_claims

QUICK = "equal_say"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))


def claims(page, model="llama"):
    answer = page.get(f"/api/claims?model={model}")
    assert answer.status_code == 200, answer.text
    return {one["name"]: one for one in answer.json()["claims"]}


def test_every_claim_is_told_and_nothing_is_measured(page):
    assert "claims" in page.get("/api/state").json()["can"]
    data = claims(page)
    assert list(data) == list(all_claims())
    for name, claim in all_claims().items():
        assert {fact: data[name][fact] for fact in ("sentence", "source", "address", "published", "definition", "refuted_by", "rule", "about_model")} == {
            fact: getattr(claim, fact) for fact in ("sentence", "source", "address", "published", "definition", "refuted_by", "rule", "about_model")
        }
        assert (data[name]["card"] is None) == claim.about_model
    bare = page.get("/api/claims").json()
    assert bare["model"] is None and [one["card"] for one in bare["claims"]] == [None] * len(all_claims())


def test_one_claim_is_measured_with_its_progress_and_is_there_afterwards(page, opened):
    from headwise.experiments.investigate import investigate

    events = []
    page.state.sessions.publish = lambda name, data, session=None: events.append((name, dict(data), session))
    job = page.post("/api/jobs", session=page.session, kind="claims", model="llama", only=QUICK)
    assert job.status_code == 202 and job.json()["kind"] == "claims"
    found = page.finished(job.json()["id"])
    assert found["state"] == "done", found
    (data,) = found["result"]
    assert data["name"] == QUICK and data["seconds"] > 0 and claims(page)[QUICK] == data
    assert data["card"] == card_to_json(investigate(opened["llama"], only=QUICK, cache=False)[QUICK].card)
    steps = [data for name, data, _ in events if name == "job" and data["state"] == "running" and data["doing"]]
    assert steps[0]["doing"] == QUICK and any(step["doing"].startswith(f"{QUICK}: ") for step in steps) and {step["of"] for step in steps} == {100}
    done = [step["done"] for step in steps]
    assert done == sorted(done) and done[0] == 0 and {session for *_, session in events} == {page.session}


def test_measuring_is_called_off_at_its_next_step(page):
    job = page.post("/api/jobs", session=page.session, kind="claims", model="llama", only="distinct_roles").json()["id"]
    end = time.monotonic() + 60
    while not page.get(f"/api/jobs/{job}").json()["doing"] and time.monotonic() < end:
        time.sleep(0.01)
    assert page.delete(f"/api/jobs/{job}").status_code == 202
    found = page.finished(job)
    assert found["state"] == "cancelled" and found["result"] is None
    assert claims(page)["distinct_roles"]["card"] is None


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"model": "llama", "only": "nonsense"}, 400, "only must be one of more_heads, one_head_cannot, .*, got 'nonsense'. Leave it out for all."),
        ({"model": "gone"}, 404, "model must be one of llama, bert, t5, got 'gone'"),
    ],
)
def test_what_cannot_be_measured_is_refused(page, body, status, message):
    import re

    answer = page.post("/api/jobs", session=page.session, kind="claims", **body)
    assert answer.status_code == status and re.match(message, answer.json()["error"]["message"])
    assert page.post("/api/jobs", token=False, session=page.session, kind="claims", model="llama").status_code == 403
    assert page.get("/api/claims?model=gone").status_code == 404


def test_a_model_without_a_tokenizer_says_so(page, opened, monkeypatch):
    monkeypatch.setattr(opened["llama"], "tokenizer", None)
    assert claims(page)[QUICK]["card"] is None
    found = page.finished(page.post("/api/jobs", session=page.session, kind="claims", model="llama", only=QUICK).json()["id"])
    assert found["state"] == "failed" and found["error"]["message"].startswith("This model has no tokenizer")

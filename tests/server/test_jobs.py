"""Jobs: their progress, their end, and cancelling them."""

import os
import time

import pytest


def test_a_check_runs_to_its_report_and_reports_its_progress(page):
    events = []
    page.state.sessions.publish = lambda name, data, session=None: events.append((name, data["state"], data["doing"], session))
    job = page.post("/api/jobs", session=page.session, kind="check", subject="headwise:attend", level="quick")
    assert job.status_code == 202
    found = page.finished(job.json()["id"])
    assert found["state"] == "done" and found["result"]["passed"] is True and found["result"]["subject"] == "headwise:attend"
    assert len(events) > 20 and events[-1][:2] == ("job", "done") and any(doing.startswith("N12 A constant") for _, _, doing, _ in events)
    assert {session for *_, session in events} == {page.session}


def test_a_cancelled_job_ends_its_process(page):
    others = set(children())
    job = page.post("/api/jobs", session=page.session, kind="kill_matrix").json()["id"]
    end = time.monotonic() + 120
    while len(set(children()) - others) < 3 and time.monotonic() < end:  # the worker, and those that it spreads its work over
        time.sleep(0.05)
    before = set(children()) - others
    assert len(before) >= 3
    assert page.delete(f"/api/jobs/{job}").status_code == 202
    assert page.finished(job)["state"] == "cancelled"
    end = time.monotonic() + 60
    while set(children()) & before and time.monotonic() < end:
        time.sleep(0.05)
    assert not set(children()) & before


def children() -> list[int]:
    """Processes that work for this one, and theirs."""
    import psutil

    return [one.pid for one in psutil.Process(os.getpid()).children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]


def test_jobs_end_with_their_session(page):
    job = page.post("/api/jobs", session=page.session, kind="kill_matrix").json()["id"]
    page.client.portal.call(page.state._session_ended, page.session)
    end = time.monotonic() + 60
    while page.state.jobs.jobs[job].state == "running" and time.monotonic() < end:
        time.sleep(0.02)
    assert page.state.jobs.jobs[job].state == "cancelled"


def test_an_error_in_a_job_is_reported(page):
    async def fails(job):
        raise ZeroDivisionError("of all things")

    job = page.client.portal.call(page.state.jobs.begin, page.session, "check", fails)
    found = page.finished(job.id)
    assert found["state"] == "failed" and found["error"] == {
        "kind": "ZeroDivisionError",
        "message": "The job failed with ZeroDivisionError: of all things",
    }


def test_an_error_of_a_worker_is_reported(page):
    from headwise.server.work.worker_client import run_in_process

    async def work(job):
        return await run_in_process({"kind": "check", "subject": "no.such:thing", "level": "quick"}, lambda message: None)

    found = page.finished(page.client.portal.call(page.state.jobs.begin, page.session, "check", work).id)
    assert found["state"] == "failed" and found["error"]["message"].startswith("subject must")


def test_a_worker_that_dies_is_reported(page):
    from headwise.server.work.worker_client import run_in_process

    async def work(job):
        return await run_in_process({"kind": "nothing of the sort"}, lambda message: None)

    found = page.finished(page.client.portal.call(page.state.jobs.begin, page.session, "check", work).id)
    assert found["state"] == "failed" and found["error"]["message"] == "The process of this job ended without a result, with exit code 1. Try again."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"kind": "check", "subject": "os:system"}, "subject must be one of "),
        ({"kind": "check", "level": "endless"}, "level must be quick or full, got 'endless'"),
        ({"kind": "everything"}, "kind must be one of check, kill_matrix, importance, "),
        ({"kind": "importance", "run": "r-0"}, "Run 'r-0' is no longer held"),
    ],
)
def test_jobs_that_make_no_sense(page, body, message):
    answer = page.post("/api/jobs", session=page.session, **body)
    assert answer.status_code in (400, 410) and answer.json()["error"]["message"].startswith(message)


def test_jobs_have_a_limit(page):
    import asyncio

    async def waits(job):
        await asyncio.sleep(60)

    jobs = [page.client.portal.call(page.state.jobs.begin, page.session, "check", waits) for _ in range(4)]
    answer = page.post("/api/jobs", session=page.session, kind="kill_matrix")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (429, "Busy") and "At most 4 jobs can run at once" in answer.text
    assert page.delete(f"/api/jobs/{jobs[0].id}").status_code == 202
    assert page.finished(jobs[0].id)["state"] == "cancelled"
    assert page.get("/api/jobs/j-0").status_code == 404


def test_a_part_of_importance_must_be_the_run_s(page):
    id = page.read()["id"]
    answer = page.post("/api/jobs", session=page.session, kind="importance", run=id, part="cross")
    assert answer.status_code == 400 and "part must be one of the run's parts, got 'cross'" in answer.text


def test_a_failure_is_told_with_the_call_that_failed(tmp_path, monkeypatch):
    import headwise as hw
    from headwise.server.work.worker_process import call

    def loses_the_sign(query, key, value, scale=None):
        import torch

        return torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=None if scale is None else abs(scale))

    report = hw.check(loses_the_sign)
    data = {one.invariant: call(one) for one in report.failures}["explicit_scale"]
    assert data["input"].endswith("scale=-1.0") and data["input"].startswith("B 1 · H 1 · G 1 · T 1 · S 2")
    assert set(data) == {"input", "query", "key", "value"} and data["key"].startswith("[[[[")

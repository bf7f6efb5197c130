"""Roles as the page reads them are those of `hw.roles`."""

import numpy as np
import pytest

from headwise.analysis.roles.find_roles import roles
from headwise.server.payloads.role_scores import score_roles
from headwise.server.state.jobs import JobCancelled


def test_roles_are_told_with_their_bars(opened):
    events = []
    data = score_roles(opened["llama"], lambda what, done, total: events.append((what, done, total)), limit=12)
    right = roles(opened["llama"], limit=12)
    assert [role["name"] for role in data["roles"]] == right.task.values.tolist() and events
    for n, role in enumerate(data["roles"]):
        assert role["baseline"] == float(right.baseline.values[n]) and role["found"] == bool(right.found.values[n]) and role["statement"]
        np.testing.assert_array_equal(role["values"], right.score.values[n])
    assert [[name or "none" for name in row] for row in data["role"]] == right.role.values.tolist()


def test_roles_are_a_job_that_can_be_called_off(page, monkeypatch):
    import headwise.server.payloads.role_scores as playing

    def endless(model, tell, **asked):
        done = 0
        while True:
            tell("induction", done, 10)
            done += 1

    monkeypatch.setattr(playing, "score_roles", endless)
    job = page.post("/api/jobs", session=page.session, kind="roles", model="llama").json()["id"]
    assert page.delete(f"/api/jobs/{job}").status_code == 202
    assert page.finished(job)["state"] == "cancelled" and issubclass(JobCancelled, Exception)


def test_one_role_can_be_asked_for_by_name(page):
    names = [role["name"] for role in page.get("/api/roles").json()["roles"]]
    assert "induction" in names and not {"grammar", "coreference", "alignment"} & {*names}, "those that need material of their own cannot be asked for here"
    job = page.post("/api/jobs", session=page.session, kind="roles", model="llama", only="induction").json()["id"]
    found = page.finished(job)
    assert found["state"] == "done" and {role["role"] for role in found["result"]["roles"]} == {"induction"}
    assert len(found["result"]["role"]) == 3
    answer = page.post("/api/jobs", session=page.session, kind="roles", model="llama", only="grammar")
    assert answer.status_code == 400 and answer.json()["error"]["message"].startswith("only must be one of duplicate_token, first_token, induction")


def test_roles_of_no_model(page):
    answer = page.post("/api/jobs", session=page.session, kind="roles")
    assert answer.status_code == 404 and answer.json()["error"]["message"].startswith("model must be one of llama, bert, t5")


@pytest.mark.parametrize("kind", ["roles", "importance"])
def test_they_are_told_to_be_there(page, kind):
    assert kind in page.get("/api/state").json()["can"]

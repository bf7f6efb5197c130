"""Two models compared by the page are compared as `hw.compare` does."""

import pytest

from headwise.interventions.edits.ablate import Ablate
from headwise.interventions.edits.scale import Scale
from tests.server.conftest import serving
from tests.server.models import TEXT


@pytest.fixture
def two(opened):
    tuned = opened["llama"].edit([Ablate(1, 2), Scale(0, 4, 3.0)])
    tuned.name = "tuned"
    with serving(models=[opened["llama"], tuned], compare=("llama", "tuned")) as page:
        yield page


@pytest.mark.parametrize("text", [None, TEXT])
def test_what_changed_is_found(two, text):
    from headwise.analysis.checkpoints.compare import compare

    assert two.get("/api/state").json()["compare"] == {"base": "llama", "tuned": "tuned"}
    asked = {"session": two.session, "kind": "compare", "base": "llama", "tuned": "tuned"} | ({} if text is None else {"text": text})
    data = two.finished(two.post("/api/jobs", **asked).json()["id"])
    assert data["state"] == "done", data["error"]
    part = data["result"]["parts"]["self"]
    right = compare(*(two.state.models.ready(id) for id in ("llama", "tuned")), text)
    assert part["verdict"] == right.verdict.values.tolist() and part["verdict"][1][2] == "muted" and part["verdict"][0][4] == "amplified"
    assert sum(word != "unchanged" for row in part["verdict"] for word in row) == 2
    assert part["variables"]["gain"]["values"][0] == pytest.approx(right.gain.values[0].tolist()) and part["variables"]["gain"]["statement"]
    assert ("pattern" in part["variables"]) == (text is not None) and data["result"]["thresholds"]["muted"] == 0.7


def test_models_of_different_kinds_are_not_compared(page):
    job = page.post("/api/jobs", session=page.session, kind="compare", base="llama", tuned="bert").json()["id"]
    found = page.finished(job)
    assert found["state"] == "failed" and "must" in found["error"]["message"]


def test_a_text_to_compare_on_has_the_same_limit(page):
    answer = page.post("/api/jobs", session=page.session, kind="compare", base="llama", tuned="llama", text="x" * 400_001)
    assert answer.status_code == 400 and "text must have at most 400000 characters" in answer.text

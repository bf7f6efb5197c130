"""Check and compare: what was found is shown as it was found; long work tells how far it is and can be stopped."""

import json

import pytest

import headwise as hw
from tests.frontend.conftest import served
from tests.frontend.look import audited, opened, wait
from tests.server import models

FAILURE = {
    "law": "hidden_keys_are_ignored",
    "code": "I06",
    "severity": "wrong",
    "statement": "",
    "why": "A hidden key was seen.",
    "problem": "B 1 H 1",
    "how": "",
    "got": [[1.0, 2.5]],
    "right": [[1.0, 1.5]],
    "where": [0, 1],
    "times_allowed": 9.0,
    "smallest": "With one key less the law holds.",
    "call": {"input": "B 1 · H 1 · T 1 · S 2   scale=-1.0", "called": "in training", "query": "[[[[1, -2]]]]"},
    "looks_like": {"attack": "causal_mask_top_left", "lie": "…", "threads": ["pytorch/pytorch#1"]},
    "also": [],
    "test": "def test_it(): ...",
}
REPORT = {
    "subject": "headwise:attend",
    "level": "quick",
    "passed": False,
    "failures": [FAILURE],
    "held": {"rows_sum_to_one": 12, "heads_do_not_interact": 1},
    "not_tested": {"sink": "no argument"},
}


@pytest.fixture
def answered(page):
    """A page whose server has just checked something, and found a fault."""
    job = {
        "id": "j-1",
        "kind": "check",
        "state": "done",
        "done": 2,
        "of": 2,
        "doing": "",
        "seconds": 1.0,
        "error": None,
        "result": REPORT | {"calls": 5, "seconds": 1.25},
    }
    page.route("**/api/jobs", lambda route: route.fulfill(status=202, json={key: job[key] for key in ("id", "kind")} | {"state": "running"}))
    page.route("**/api/jobs/j-1", lambda route: route.fulfill(json=job))
    return page


def test_a_failure_teaches(answered, tiny):
    page = opened(answered, tiny, "check;subject=headwise:attend")
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".failure")
    assert page.locator(".figures").first.inner_text().split("\n") == ["2", "passed", "1", "failed", "13", "problems passed", "1.3 s", "against float64"]
    card = page.locator(".failure").inner_text()
    for told in (
        "hidden keys are ignored",
        "A hidden key was seen.",
        "B 1 · H 1 · T 1 · S 2 scale=−1.0 in training query [[[[1, −2]]]] With one key less the law holds.",
        "likely bug: causal mask top left",
        "pytorch/pytorch#1",
    ):
        assert told in " ".join(card.split())
    assert page.locator(".failure .values .wrong").all_inner_texts() == ["2.5"] and page.locator(".failure .values .right").all_inner_texts() == ["1.5"]
    assert page.locator(".report .chip.falls").first.inner_text() == "1 of 3 fail"
    assert not page.locator(".badge").is_visible(), "what holds of a run would stand beside what falls of this"
    assert audited(page) == []


def test_the_kill_matrix_begins_at_its_first_row(page, tiny):
    opened(page, tiny, "check")
    page.wait_for_timeout(100)
    assert page.evaluate("document.querySelector('.kill-scroll').scrollTop") == 0
    opened(page, tiny, "check;row=tie_heads")
    wait(page, "document.querySelector('.kill-scroll').scrollTop > 0")


def test_a_row_of_the_kill_matrix_tells_who_caught_it(page, tiny):
    opened(page, tiny, "check;row=swap_w_o_blocks")
    assert page.locator(".details b").inner_text() == "swap w o blocks" and "output is sum of heads" in page.locator(".details").inner_text()
    page.locator(".kills tr.on button").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.innerText") != "swap blocks"
    assert "row=" in page.evaluate("location.hash") and "swap_w_o_blocks" not in page.evaluate("location.hash")
    answered = json.loads(page.evaluate("fetch('./api/kill-matrix').then(answer => answer.text())"))
    attacks = [row for row in answered["rows"] if row["named"]]
    assert page.locator(".figures b").first.inner_text() == f"{len(attacks)} of {len(attacks)}"
    assert page.locator(".kills tbody tr").count() == len(answered["rows"])
    assert len(set(page.locator(".kills tbody th").all_inner_texts())) == len(answered["rows"]), "every variant of a mutation has its own name"
    assert page.locator(".kills tbody .killed").count() == sum(len(row["caught"]) for row in answered["rows"])


def test_two_models_are_compared_head_by_head(page, checkpoints, tmp_path):
    hw.open_model(checkpoints["llama"]).edit([hw.Scale(0, 1, 0.3), hw.Scale(1, 4, 1.8)]).save(tmp_path / "tuned")
    with served("--compare", str(checkpoints["llama"]), str(tmp_path / "tuned")) as address:
        opened(page, address, f"compare;text={models.TEXT.replace(' ', '+')}")
        page.wait_for_selector(".compared td", timeout=60_000)
        heads = page.locator(".compared tbody tr")
        assert [heads.nth(place).locator("th, td").nth(1).inner_text() for place in (0, 1)] == ["amplified", "muted"]
        assert [heads.nth(place).get_attribute("data-row") for place in (0, 1)] == ["L1 H4", "L0 H1"]
        assert page.locator(".segmented button").all_inner_texts() == ["all 18", "amplified 1", "muted 1", "unchanged 16"]
        heads.nth(1).click()
        assert page.locator(".rail .title").inner_text() == "L0 H1" and "gain 0.300" in page.locator(".rail .quiet").inner_text()
        page.wait_for_selector(".three[data-drawn]")
        assert audited(page) == []
        page.get_by_role("button", name="open in tuned").click()
        wait(page, "document.querySelector('h1').innerText === 'Layer 0 · Head 1'")
        assert page.locator("[aria-label=model]").input_value() == "tuned"
        page.goto("about:blank")  # what it still asks for ends before the server does


def test_importance_is_measured_when_asked_for(page, tiny):
    opened(page, tiny, f"model;model=bert;text={models.TEXT.replace(' ', '+')}")
    page.locator(".bar select").nth(0).select_option("importance")
    page.wait_for_selector(".stat[data-measure=importance]", timeout=60_000)
    page.wait_for_selector(".stage .ramp:has-text('mean importance of a layer')")


def test_work_can_be_called_off(page, tiny):
    opened(page, tiny, "check;subject=headwise:attend")
    page.get_by_role("button", name="Check it").click()
    page.get_by_role("button", name="Cancel").click()
    wait(page, "!document.querySelector('.progress')")
    assert page.locator(".report").count() == 0

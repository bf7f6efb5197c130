"""Claims: cards that say what was found and by which numbers; measured one by one or all, told how far, called off, and kept."""

import re

import pytest

import headwise as hw
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.card_json import card_to_json
from headwise.experiments.investigate import all_claims
from tests.frontend.conftest import served
from tests.frontend.look import audited, opened, wait, wide
from tests.frontend.test_views import SMALL

QUICK = "equal_say"
LINES = Plot(
    "line",
    "heads",
    "nats a letter",
    [Series("trained", [1, 2, 4], [2.5, 2.25, 2.375], [2.4, 2.2, 2.3], [2.6, 2.3, 2.4]), Series("drawn", [1, 2, 4], [2.9, 2.8, 2.85])],
    log_x=True,
    reference=2.6,
)
POINTS = Plot(
    "points",
    "size of z",
    "size of the write",
    [Series("a head", [0.1, 1.0, 10.0], [0.001, 0.01, 0.1]), Series("by hand", [5.0], [0.0])],
    log_x=True,
    log_y=True,
)
BARS = Plot("bars", "layer", "share <b>", [Series("kept", [float(x) for x in range(40)], [x / 40 for x in range(40)])])
CARDS = {
    "more_heads": Card(
        "corrected",
        "From 2.5 nats it falls to 2.25.",
        {"best": Number(2.25, "the lowest <i>loss</i>", 2.2, 2.3, "nats", "perplexity 4.91")},
        LINES,
        "Better up to a point.",
    ),
    "output_loses": Card(
        "cut", "W_O keeps all.", {"kept": Number(0.999, unit="share"), "rank": Number(7.0, unit="heads")}, POINTS, texts=16, tokens=768, measure="next"
    ),
    "equal_say": Card("kept", "They have, from -0.057 to W-1.", {"tiny": Number(1.5e-7, low=1e-7, high=2e-7)}, BARS, texts=16, tokens=768, measure="kl"),
    "specialise": Card("inconclusive", "This cannot be measured on this model: it reads no text."),
}
FACTS = ("sentence", "source", "address", "published", "definition", "refuted_by", "rule", "about_model")


def told(cards=CARDS):
    """What the server would answer, with these cards."""
    entries = []
    for name, claim in all_claims().items():
        card = cards.get(name)
        facts = {fact: getattr(claim, fact) for fact in FACTS}
        entries.append({"name": name, **facts, "card": card and card_to_json(card), "seconds": card and 3.25})
    return {"model": "llama", "claims": entries}


@pytest.fixture
def shown(page, tiny):
    """The view with four cards, one of each verdict."""
    page.route("**/api/claims?*", lambda route: route.fulfill(json=told()))

    def look(state="claims", **size):
        opened(page, tiny, state, **size)
        page.wait_for_selector(".card[data-claim]", timeout=60_000)
        return page

    return look


@pytest.fixture(scope="module")
def fresh(checkpoints, tmp_path_factory):
    """The address of a server that has measured nothing yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWISE_CACHE", str(tmp_path_factory.mktemp("cache")))
        with served(str(checkpoints["llama"]), str(checkpoints["bert"])) as address:
            yield address


def card(page, name):
    return page.locator(f".card[data-claim={name}]")


def test_a_card_says_what_was_found_and_by_which_numbers(shown):
    page = shown()
    assert [one.get_attribute("data-claim") for one in page.locator(".card").all()] == list(all_claims())
    words = {name: card(page, name).locator(".verdict").inner_text() for name in CARDS}
    assert words == {"more_heads": "Kept, corrected", "output_loses": "Cut", "equal_say": "Kept", "specialise": "Inconclusive"}
    assert card(page, "others_carry").locator(".verdict").inner_text() == "Not measured here"
    assert card(page, "more_heads").locator("ins").inner_text() == "Better up to a point."
    assert page.locator("del").all_inner_texts() == ["WO loses information."]
    assert all(one.locator(".verdict svg path").count() == 1 for one in page.locator(".card").all()), "a verdict has a shape, not a colour alone"
    assert card(page, "equal_say").locator(".found").inner_text() == "They have, from −0.057 to W-1."
    assert page.locator(".view-head .sub").inner_text() == f"4 of {len(all_claims())} measured, 3 on llama as loaded, 1 on small models trained for the claim"
    link = card(page, "more_heads").locator(".source a")
    assert link.get_attribute("href") == all_claims()["more_heads"].address and link.get_attribute("rel") == "noreferrer"
    measured = card(page, "output_loses").locator(".source .mark")
    measured.focus()
    tip = page.locator(".tip:popover-open").inner_text()
    assert "Measured on this machine with llama." in tip and "16 texts, 768 tokens." in tip and "loss of the next token" in tip and "Intervals" not in tip
    assert "95 %, over texts" in card(page, "equal_say").locator(".source .mark").get_attribute("data-tip")
    assert "plays no part" in card(page, "more_heads").locator(".source .mark").get_attribute("data-tip")
    assert card(page, "specialise").locator(".source").inner_text().endswith("not measurable")
    assert card(page, "others_carry").locator(".source").inner_text().endswith("cited")
    assert all_claims()["others_carry"].published[:40] in card(page, "others_carry").locator(".found").inner_text()


def test_the_rule_and_every_number_are_a_click_away(shown):
    page = shown()
    how = card(page, "more_heads").locator("details")
    how.locator("summary").click()
    claim, text = all_claims()["more_heads"], how.inner_text()
    assert claim.definition in text and claim.refuted_by in text and claim.rule in text and claim.published in text
    row = how.locator("tbody tr")
    assert row.locator("th").inner_text().split("\n") == ["best", "the lowest <i>loss</i>"]
    assert row.locator("td").all_inner_texts() == ["2.250 nats\n2.200 to 2.300", "perplexity 4.91"]
    assert audited(page) == []
    cells = card(page, "output_loses").locator("tbody td")
    card(page, "output_loses").locator("summary").click()
    assert cells.all_inner_texts() == ["99.9 %", "7 heads"]
    assert card(page, "equal_say").locator("tbody td").all_text_contents() == ["1.5·10⁻⁷1.0·10⁻⁷ to 2.0·10⁻⁷"]


def test_a_picture_tells_its_numbers_to_eye_pointer_and_keys(shown):
    page = shown()
    lines = card(page, "more_heads").locator(".claim-plot svg[role=img]")
    label = lines.get_attribute("aria-label")
    assert label.startswith("nats a letter against heads. trained: 1: 2.500 (2.400 to 2.600), 2: 2.250") and label.endswith("Dashed, to compare with: 2.600")
    assert {part: lines.locator(f".{part}").count() for part in ("band", "curve", "dot", "equal")} == {"band": 1, "curve": 2, "dot": 6, "equal": 1}
    assert sorted(lines.locator("text.name").all_text_contents()) == ["2.600", "drawn", "trained"]
    box = lines.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 16, box["y"] + 100)
    assert page.locator(".tip:popover-open").inner_text().split("\n")[1] == "heads: 4"
    lines.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.locator(".tip:popover-open").inner_text() == "trained\nheads: 2\nnats a letter: 2.250 (2.200 to 2.300)"
    page.keyboard.press("ArrowDown")
    assert card(page, "more_heads").locator("[aria-live]").inner_text() == "drawn, heads: 2, nats a letter: 2.800"
    page.keyboard.press("Escape")
    assert page.locator(".tip:popover-open").count() == 0
    points = card(page, "output_loses").locator(".claim-plot svg[role=img]")
    assert points.locator(".point").count() == 3, "what is no positive number has no place on a logarithmic axis"
    assert "10⁻³" in points.locator("text").all_text_contents()
    bars = card(page, "equal_say").locator(".claim-plot svg[role=img]")
    assert bars.locator(".column").count() == 40 and "kept, 24 of 40 points: 0: 0, 2: 0.0500" in bars.get_attribute("aria-label")
    assert "share <b>" in "".join(card(page, "equal_say").locator("text").all_text_contents())


def test_cards_are_filtered_by_verdict(shown):
    page = shown()
    buttons = page.locator(".view-head .segmented button")
    assert buttons.all_inner_texts() == [
        f"all {len(all_claims())}",
        "kept 1",
        "kept, corrected 1",
        "cut 1",
        "inconclusive 1",
        f"not measured here {len(all_claims()) - 4}",
    ]
    for button, name in ((1, "equal_say"), (2, "more_heads"), (3, "output_loses"), (4, "specialise")):
        buttons.nth(button).focus()
        page.keyboard.press("Enter")
        assert [one.get_attribute("data-claim") for one in page.locator(".card").all()] == [name]
        assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert "verdict=inconclusive" in page.evaluate("location.hash")
    page = shown("claims;verdict=cut")
    assert page.locator(".card").count() == 1 and page.locator(".view-head [aria-pressed=true]").inner_text() == "cut 1"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_cards_can_be_read_by_all_on_desk_and_phone(shown, theme):
    page = shown(f"claims;theme={theme}")
    assert audited(page) == [] and page.evaluate(SMALL) == []
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(200)
    assert wide(page) == 0
    for summary in page.locator("summary").all()[:2]:
        summary.click()
    assert wide(page) == 0 and audited(page) == []
    widths = page.evaluate("[...document.querySelectorAll('.claim-plot > svg')].map(one => one.getBoundingClientRect().width)")
    assert len(widths) == 3 and all(250 < width < 390 for width in widths)


def test_a_claim_is_measured_and_its_card_is_kept(page, fresh):
    opened(page, fresh, "claims")
    button = page.get_by_role("button", name=f"measure on llama: {all_claims()[QUICK].sentence}")
    button.wait_for(timeout=60_000)
    assert (
        page.locator(".view-head .sub")
        .inner_text()
        .startswith(f"{sum(not claim.about_model for claim in all_claims().values())} of {len(all_claims())} measured")
    )
    button.focus()
    page.keyboard.press("Enter")
    card(page, QUICK).locator(".source .mark.equal").wait_for(timeout=60_000)
    verdict = card(page, QUICK).locator(".verdict").inner_text()
    assert verdict in ("Kept", "Kept, corrected", "Cut", "Inconclusive") and card(page, QUICK).locator("tbody tr").count() > 0
    assert card(page, QUICK).locator("button", has_text="Measure").count() == 0
    found = card(page, QUICK).locator(".found").inner_text()
    opened(page, fresh, "claims")
    card(page, QUICK).locator(".source .mark.equal").wait_for()
    assert (card(page, QUICK).locator(".verdict").inner_text(), card(page, QUICK).locator(".found").inner_text()) == (verdict, found)
    page.locator("[aria-label=model]").select_option("bert")
    wait(page, f"document.querySelector('.card[data-claim={QUICK}] .verdict')?.innerText === 'Not measured here'")
    assert audited(page) == []


def test_measuring_all_tells_how_far_it_is_and_can_be_called_off(page, fresh):
    opened(page, fresh, "claims;model=bert")
    page.get_by_role("button", name=re.compile(r"^Measure (all|the other) \d+ on bert")).click(timeout=60_000)
    cancel = page.locator(".work .progress button")
    cancel.wait_for()
    assert page.evaluate("document.activeElement.innerText") == "Cancel"
    wait(page, "/“.+”/.test(document.querySelector('.work .progress .sub')?.innerText ?? '')")
    assert page.locator(".doing button:not([disabled])", has_text="Measure").count() == 0, "one work at a time"
    page.keyboard.press("Enter")
    wait(page, "!document.querySelector('.progress')", 60)
    page.get_by_role("button", name=re.compile(r"^Measure (all|the other) \d+ on bert")).wait_for()
    assert page.locator(".note.fails").count() == 0


@pytest.fixture
def job(page):
    """A server that begins a work of which the test says what becomes."""
    state = {"id": "j-1", "kind": "claims", "state": "running", "done": 25, "of": 100, "doing": f"{QUICK}: reading", "seconds": 30.0}
    state |= {"error": None, "result": None}
    page.route("**/api/claims?*", lambda route: route.fulfill(json=told({})))
    page.route("**/api/jobs", lambda route: route.fulfill(status=202, json={"id": "j-1", "kind": "claims", "state": "running"}))
    page.route("**/api/jobs/j-1", lambda route: route.fulfill(json=state))
    return state


def test_what_went_wrong_is_told(page, job, tiny):
    job |= {"state": "failed", "error": {"kind": "MissingPackage", "message": "texts must be given <here>, got none. Pass some."}}
    opened(page, tiny, "claims")
    page.get_by_role("button", name=re.compile("^Measure all")).click()
    note = page.locator(".work .note.fails")
    note.wait_for()
    assert note.inner_text() == "The measurement failed. texts must be given <here>, got none. Pass some."
    assert page.get_by_role("button", name=re.compile("^Measure all")).is_enabled()


def test_no_more_than_four_works_at_once_is_told(unchecked, tiny):
    page = unchecked
    page.route("**/api/claims?*", lambda route: route.fulfill(json=told({})))
    page.route("**/api/jobs", lambda route: route.fulfill(status=429, json={"error": {"kind": "Busy", "message": "jobs must be at most 4 at once."}}))
    opened(page, tiny, "claims")
    page.get_by_role("button", name=f"measure on llama: {all_claims()[QUICK].sentence}").click()
    page.locator(".work .note.fails").wait_for()
    assert page.locator(".work .note.fails").inner_text() == "The measurement failed. jobs must be at most 4 at once."


def test_progress_stands_in_the_card_that_is_measured(page, job, tiny):
    opened(page, tiny, "claims")
    page.get_by_role("button", name=f"measure on llama: {all_claims()[QUICK].sentence}").click()
    card(page, QUICK).locator(".progress").wait_for()
    assert page.locator(".progress").count() == 1 and page.evaluate("document.activeElement.innerText") == "Cancel"


def test_without_the_token_cards_are_read_only(page, tiny):
    page.route("**/api/claims?*", lambda route: route.fulfill(json=told()))
    opened(page, tiny.split("?")[0], "claims")
    page.wait_for_selector(".card[data-claim]", timeout=60_000)
    assert "To edit, open the address that the terminal printed." in page.locator(".work").inner_text()
    buttons = page.locator(":is(.cards, .work) button", has_text="Measure")
    assert buttons.count() > 5 and not any(button.is_enabled() for button in buttons.all())


def test_where_nothing_can_be_measured_what_was_published_is_told(page, tmp_path):
    hw.five_moves_html(tmp_path / "moves.html")
    page.goto(f"file://{tmp_path / 'moves.html'}#claims;verdict=cut")
    page.wait_for_selector(".card")
    assert page.locator(".card").count() == page.locator(".card .mark.cited").count() == 4
    assert "nothing has been measured here" in page.locator(".view-head").inner_text() and page.locator("button", has_text="Measure").count() == 0
    page.locator(".view-head .segmented button").first.click()
    assert page.locator(".card").count() == 11 and audited(page) == []


@pytest.fixture
def unchecked(browser):
    """A page on which a request is about to be refused: chromium writes that on the console."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()

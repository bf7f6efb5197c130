"""The address is the state: a link restores a view, keys and buttons move through it, and the way back is the browser's."""

import pytest

from tests.frontend.look import opened, settled, wait

TEXT = "the+dog+ran+and+the+cat+sat+on+the+mat+."


def state(page) -> str:
    return page.evaluate("location.hash")


def test_a_link_restores_model_text_head_token_and_theme(page, tiny):
    opened(page, tiny, f"head/2/4;model=llama;text={TEXT};token=5;theme=dark")
    assert page.locator("h1").inner_text() == "Layer 2 · Head 4"
    assert page.locator(".per-token tr.on button").inner_text() == "cat"
    assert page.locator("[aria-label=model]").input_value() == "llama"
    assert "the dog ran" in page.locator("[aria-label=text] option:checked").inner_text()
    assert page.locator(".headwise").get_attribute("data-theme") == "dark"


def test_a_link_restores_the_grid_as_it_was_asked_for(page, tiny):
    opened(page, tiny, "model/1/3;colour=entropy;order=-write_norm;find=L1-2+kv1;size=L")
    assert page.locator("[data-find]").input_value() == "L1-2 kv1"
    assert page.locator(".chosen-head .title").inner_text() == "L1 H3"
    assert "6 of 18 match" in page.locator(".stage").nth(1).inner_text()
    assert page.locator("[aria-label='size of the heads'] [aria-pressed=true]").inner_text() == "L"


def test_a_link_restores_the_place_on_a_map(page, tiny):
    long = "+".join(["the+cat+sat+on+the+mat+."] * 8)
    opened(page, tiny, f"head/0/1;text={long};token=40;key=12;scale=log;zoom=14.0,38.0,20.00")
    page.wait_for_selector(".zoom .exact")
    assert page.locator(".zoom .exact").get_attribute("data-query") == "40"
    assert page.locator(".zoom .exact").get_attribute("data-key") == "12"
    assert page.locator("[aria-label='scale of the colours'] [aria-pressed=true]").inner_text() == "log"
    wait(page, "/zoom=14.0,38.0,20.00/.test(location.hash)")


def test_what_makes_no_sense_in_an_address_is_left_out(page, tiny):
    opened(page, tiny, "head/99/99;model=nobody;token=x;nonsense;colour=%E0%A4%A;h=7;part=moon")
    wait(page, "document.querySelector('h1').innerText === 'Layer 2 · Head 5'")
    opened(page, tiny, "moves;h=7;attack=nobody;pin=weights.9:8,7")
    assert page.locator("[aria-label='number of heads'] [aria-pressed=true]").inner_text() == "h = 2"
    assert page.locator(".formula").inner_text() == "Point at a number."


def test_keys_go_to_views_and_find(page, tiny):
    opened(page, tiny, "model/1/2")
    for key, view, title in (
        ("3", "moves", "Five moves"),
        ("6", "claims", "Claims about heads"),
        ("2", "head", "Layer 1 · Head 2"),
        ("1", "model", "All heads of the model"),
    ):
        page.keyboard.press(key)
        settled(page, view)
        assert page.locator("h1").first.text_content() == title and view in state(page)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.dataset.find") == ""
    page.keyboard.type("kv1 3")
    assert "find=kv1+3" in state(page) and "model" in state(page)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.locator("dialog[open] .title").inner_text() == "Keys and marks"
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_the_way_back_goes_back(page, tiny):
    opened(page, tiny, "model/1/2")
    page.keyboard.press("3")
    settled(page, "moves")
    page.get_by_role("button", name="h = 4").click()
    page.go_back()
    assert page.locator("[aria-label='number of heads'] [aria-pressed=true]").inner_text() == "h = 2"
    page.go_back()
    settled(page, "model")
    assert page.locator(".chosen-head .title").inner_text() == "L1 H2"


def test_the_grid_is_one_tab_stop_with_arrows_and_enter(page, tiny):
    opened(page, tiny, "model/0/0;text=" + TEXT)
    cell = page.locator(".focus-cell")
    cell.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):  # layers down: arrows across are heads
        page.keyboard.press(key)
    assert "model/1/2" in state(page) and cell.evaluate("one => one === document.activeElement")
    assert cell.get_attribute("aria-label").startswith("L1 H2 · kv 0")
    assert page.locator(".gridview [tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    wait(page, "document.querySelector('h1').innerText === 'Layer 1 · Head 2'")


def test_a_click_on_the_grid_chooses_the_head_under_it(page, tiny):
    opened(page, tiny, "model/0/0;text=" + TEXT)
    box = page.locator(".focus-cell").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 2 * (box["height"] + 2) + box["height"] / 2)
    assert page.locator(".chosen-head .title").inner_text() == "L2 H0"


def test_a_chosen_token_lights_its_row(page, tiny):
    opened(page, tiny, f"model/1/2;text={TEXT}")
    before = page.evaluate("document.querySelector('.small-map canvas').toDataURL()")
    page.locator(".tokens .token", has_text="dog").click()
    assert "token=1" in state(page)
    assert page.evaluate("document.querySelector('.small-map canvas').toDataURL()") != before
    page.locator(".tokens .token", has_text="dog").click()
    assert "token" not in state(page)


def test_words_narrow_down_and_unknown_ones_are_told(page, tiny):
    opened(page, tiny, "model")
    find = page.locator("[data-find]")
    find.fill("H2")
    assert "3 of 18 match" in page.locator(".stage").nth(1).inner_text()
    find.fill("entropy>99")
    assert "0 of 18 match" in page.locator(".stage").nth(1).inner_text()
    find.fill("elephant moon>3")
    told = page.locator(".found").inner_text()
    assert (
        told.startswith("“elephant” is not a role, layer, head, kv or measure. Try sink, previous, self, mixed, ")
        and "headwise roles MODEL --role NAME" in told
    )
    assert "“moon” is not a measure: " in told and "entropy" in told


def test_one_head_is_found_as_it_is_written_everywhere_and_chosen_by_enter(page, tiny):
    opened(page, tiny, "model")
    find = page.locator("[data-find]")
    find.fill("2.4")
    assert "1 of 18 match" in page.locator(".stage").nth(1).inner_text()
    find.press("Enter")
    assert page.locator(".chosen-head .title").inner_text() == "L2 H4"


def test_a_role_that_needs_its_own_texts_is_asked_for_and_then_found(page, tiny):
    opened(page, tiny, "model")
    find = page.locator("[data-find]")
    assert find.get_attribute("placeholder").startswith("find: induction")
    wait(page, "performance.getEntriesByType('resource').some(one => one.name.endsWith('/api/roles'))")
    find.fill("induction")
    page.locator(".found button").wait_for()
    assert page.locator(".found").inner_text() == "“induction” is tested on texts made for it: Test every head for induction"
    find.press("Enter")
    wait(page, "!document.querySelector('.progress') && !document.querySelector('.found').innerText", 60)
    assert "0 of 18 match" in page.locator(".stage").nth(1).inner_text(), "random weights play no role"
    opened(page, tiny.split("?")[0], "model;find=induction")
    page.context.clear_cookies()
    page.reload()
    wait(page, "/headwise roles MODEL --role induction/.test(document.querySelector('.found')?.innerText ?? '')")
    assert page.locator("[data-find]").get_attribute("placeholder").startswith("find: sink")


@pytest.mark.parametrize("view", ["model", "head/1/1"])
def test_the_theme_changes_everything_at_once(page, tiny, view):
    opened(page, tiny, view + ";theme=light")
    page.get_by_role("button", name="light or dark").click()
    assert page.locator(".headwise").get_attribute("data-theme") == "dark"
    assert "theme=dark" in state(page)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 18, 21)"

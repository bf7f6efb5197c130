"""Every view in both themes, on a desktop and on a phone: nothing wider than its window, nothing too small to read, nothing that axe-core minds."""

import pytest

from tests.frontend.look import VIEWS, audited, opened, wide

LONG = "+".join(["the+cat+sat+on+the+mat+because+it+was+tired+."] * 4)
SMALL = """[...new Set([...document.querySelectorAll('.headwise *')]
    .filter(one => !['SUB', 'SUP'].includes(one.tagName) && [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()))
    .filter(one => parseFloat(getComputedStyle(one).fontSize) < 11).map(one => one.outerHTML.slice(0, 80)))]"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_fits_its_window_and_can_be_read_by_all(page, tiny, view, theme):
    opened(page, tiny, f"{view};theme={theme}")
    assert page.locator(".headwise").get_attribute("data-theme") == theme
    assert page.locator("nav [aria-current=page]").count() == 1
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(150)
        assert wide(page) == 0, f"{view} is {wide(page)} px wider than {width}"
    assert page.evaluate(SMALL) == []
    assert audited(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_map_of_a_longer_text_too(page, tiny, theme):
    opened(page, tiny, f"head/1/2;text={LONG};theme={theme}")
    page.wait_for_selector(".map-area[data-open]")
    page.wait_for_selector(".zoom .exact")
    assert audited(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(150)
    assert wide(page) == 0


@pytest.mark.parametrize("attack", ["tie_heads", "round_weights"])
def test_fallen_moves_can_be_read_by_all(page, tiny, attack):
    opened(page, tiny, f"moves;h=4;attack={attack};theme=dark")
    assert audited(page) == []


def test_other_states_of_the_model_view(page, tiny):
    opened(page, tiny, "model;colour=write_share;order=entropy;find=h1;size=M")
    assert "3 of 18 match" in page.locator(".stage").nth(1).inner_text()
    assert audited(page) == []
    opened(page, tiny, "model;colour=role;model=t5;part=decoder.cross")
    assert page.locator("select").nth(2).input_value() == "decoder.cross"
    assert audited(page) == []


def test_a_screen_of_four_thousand_pixels(page, tiny):
    opened(page, tiny, "head/1/2", 3840, 2160)
    assert wide(page) == 0


def test_reduced_motion_and_forced_print_leave_the_page_whole(browser, tiny):
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1280, "height": 800})
    page = context.new_page()
    opened(page, tiny, f"head/1/2;text={LONG}")
    page.wait_for_selector(".map-area[data-open]")
    context.close()

"""The page as one file, and in a notebook: the same modules with other ways to ask."""

import pytest

import headwise as hw
from tests.frontend.look import audited, settled, wait, wide
from tests.server import models


@pytest.fixture(scope="module")
def run(checkpoints):
    return hw.open_model(checkpoints["llama"]).run(models.TEXT)


def test_a_run_as_a_file_shows_its_heads(page, run, tmp_path):
    run.save_html(tmp_path / "run.html")
    page.goto(f"file://{tmp_path / 'run.html'}")
    settled(page, "model")
    assert page.locator(".tokens .token").all_inner_texts() == models.TEXT.split()
    page.locator(".focus-cell").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator(".short-map rect[data-at='4,1']").hover()
    assert float(page.locator(".cell-value .exact").inner_text()) == pytest.approx(float(run.weights(1, 0)[4, 1]), abs=5.1e-7)
    assert "A saved file shows the model as it was loaded" in page.locator(".rail.red").inner_text()
    assert audited(page) == []
    for key, view in (("4", "check"), ("3", "moves"), ("5", "compare"), ("6", "claims"), ("1", "model")):
        page.keyboard.press(key)
        page.wait_for_selector(f".view.{view}")
        page.wait_for_timeout(50)
        assert wide(page) == 0


def test_a_long_run_as_a_file_shows_its_map(page, run, checkpoints, tmp_path):
    text = " ".join([models.TEXT] * 30)
    hw.open_model(checkpoints["llama"]).run(text).save_html(tmp_path / "long.html")
    page.goto(f"file://{tmp_path / 'long.html'}#head/1/2")
    page.wait_for_selector(".map-area[data-open]")
    page.wait_for_selector(".token-line")
    assert "A saved file has the map, but not every weight" in page.locator(".row-text").inner_text()


def test_the_five_moves_as_a_file(page, tmp_path):
    hw.five_moves_html(tmp_path / "moves.html")
    page.goto(f"file://{tmp_path / 'moves.html'}")
    settled(page, "moves")
    page.locator("[data-attack=tie_heads]").click()
    assert page.locator(".proof [data-move=M5]").get_attribute("data-state") == "falls" and page.locator(".badge").inner_text().startswith("M5 falls")
    assert audited(page) == []
    page.keyboard.press("1")
    page.wait_for_selector(".view.model .note")


WIDGET = """async address => {
    const {default: widget} = await import('./static/bundle.js');
    const heard = [];
    const model = {
        get: name => ({address, session: window.session})[name],
        on: (name, act) => name === 'msg:custom' && heard.push(act),
        off: () => {},
        async send({id, method, path, body}) {
            const sent = body ? {headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)} : {};
            const answer = await fetch('.' + path, {method, ...sent});
            const buffer = await answer.arrayBuffer();
            const padded = new Uint8Array(buffer.byteLength + 3);
            padded.set(new Uint8Array(buffer), 3);  // a notebook hands over views that begin anywhere
            const view = new DataView(padded.buffer, 3, buffer.byteLength);
            for (const act of heard) act({id, status: answer.status, type: answer.headers.get('content-type')}, [view]);
        },
    };
    window.session = (await (await fetch('./api/sessions', {method: 'POST'})).json()).session;
    const el = document.createElement('div');
    el.id = 'cell';
    el.style.width = '900px';
    document.body.replaceChildren(el);
    window.leave = await widget.render({model, el});
}"""


def test_the_widget_renders_what_the_page_does(page, tiny):
    page.goto(tiny)
    settled(page, "model")  # its models are open: the widget of this test hears no events
    page.evaluate(WIDGET, "model/1/2")
    page.wait_for_selector("#cell .blue [data-check='model']")
    before = page.evaluate("location.href")
    page.locator("#cell .focus-cell").focus()
    page.keyboard.press("Enter")
    wait(page, "document.querySelector('#cell h1').innerText === 'Layer 1 · Head 2'")
    page.wait_for_selector("#cell .short-map rect")
    assert page.evaluate("location.href") == before, "a widget leaves the notebook's address alone"
    page.evaluate("window.leave()")


def test_two_widgets_keep_apart(page, tiny):
    page.goto(tiny)
    page.wait_for_selector("[data-ready]")
    page.evaluate(WIDGET, "moves;h=1")
    settled(page, "moves")
    page.locator("#cell [aria-label='number of heads'] button").nth(2).click()
    assert page.locator("#cell .lane").count() == 4

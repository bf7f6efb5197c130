"""One head: its numbers are those of the run, to the single cell; edits move the output, and undoing them brings back every probability."""

import shutil

import pytest
import torch

import headwise as hw
from tests.frontend.look import opened, wait

SHORT = "the cat sat on the mat because it was tired ."
LONG = " ".join(["the dog ran and the cat sat on a mat because it was tired ."] * 20)  # 280 tokens: two tiles a side


@pytest.fixture(scope="module")
def model(checkpoints):
    return hw.open_model(checkpoints["llama"])


def address(text: str) -> str:
    return text.replace(" ", "+")


def test_deep_zoom_to_a_single_cell_shows_the_weight_of_the_run(page, tiny, model):
    run = model.run(LONG)
    opened(page, tiny, f"head/1/4;text={address(LONG)}")
    page.wait_for_selector(".map-area[data-open]")
    area = page.locator(".map-area")
    area.focus()
    weights = run.weights(1, 4)
    for query, key in ((273, 256 + int(weights[273, 256:].argmax())), (258, int(weights[258, :256].argmax()))):
        page.evaluate(f"location.hash = '#head/1/4;text={address(LONG)};token={query};key={key};zoom={key + 0.5},{query + 0.5},40'")
        page.reload()
        page.wait_for_selector(f".zoom .exact[data-query='{query}'][data-key='{key}']")
        right = float(weights[query, key])
        exact = page.locator(".zoom .exact")
        assert float(exact.get_attribute("data-value")) == pytest.approx(right, abs=5e-7)
        assert float(exact.inner_text()) == pytest.approx(right, abs=5.1e-7)
    assert page.locator(".zoom .readout").inner_text().count("\n") >= 5


def test_the_cursor_moves_by_keys_and_reads_rows_and_columns(page, tiny, model):
    weights = model.run(LONG).weights(0, 2)
    opened(page, tiny, f"head/0/2;text={address(LONG)};token=100;key=50")
    page.wait_for_selector(".zoom .exact[data-query='100'][data-key='50']")
    page.locator(".map-area").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_selector(".zoom .exact[data-query='99'][data-key='40']")
    assert float(page.locator(".zoom .exact").inner_text()) == pytest.approx(float(weights[99, 40]), abs=5.1e-7)
    peak, tallest = int(weights[99].argmax()), int(weights[:, 40].argmax())
    assert f"@{peak} {float(weights[99, peak]):.2f}" in page.locator(".row-text").inner_text()
    assert f"@{tallest} {float(weights[tallest, 40]):.2f}" in page.locator(".zoom-main > .sub").nth(1).inner_text()
    page.keyboard.press("ArrowRight")
    for key in ("+", "+", "-", "0", "Enter"):
        page.keyboard.press(key)
    wait(page, "/zoom=/.test(location.hash)")


def test_what_is_hidden_is_no_zero(page, tiny):
    opened(page, tiny, f"head/0/2;text={address(LONG)};token=10;key=200")
    page.wait_for_selector(".zoom .exact")
    assert page.locator(".zoom .exact").inner_text() == "hidden"
    opened(page, tiny, f"head/0/2;text={address(SHORT)}")
    assert page.locator(".short-map rect[data-at='0,0']").count() == 1 and page.locator(".short-map rect[data-at='0,1']").count() == 0


def test_a_short_text_shows_every_weight_and_every_statistic(page, tiny, model):
    run = model.run(SHORT)
    weights = run.weights(2, 3)
    opened(page, tiny, f"head/2/3;text={address(SHORT)}")
    page.locator(".short-map rect[data-at='5,2']").hover()
    assert float(page.locator(".cell-value .exact").inner_text()) == pytest.approx(float(weights[5, 2]), abs=5.1e-7)
    page.locator(".short-map").focus()
    page.keyboard.press("ArrowLeft")
    assert float(page.locator(".cell-value .exact").inner_text()) == pytest.approx(float(weights[5, 1]), abs=5.1e-7)
    row = page.locator(".per-token tbody tr").nth(6).locator("th, td").all_inner_texts()
    head = run.statistics.sel(layer=2, head=3).isel(batch=0)
    assert row[0] == "because" and float(row[1]) == pytest.approx(float(head.entropy[6]), abs=6e-4)
    assert row[2] == f"{run.tokens[0][int(head.peak[6])]} {float(head.max_weight[6]):.3f}"
    page.locator(".lines .query").nth(4).hover()
    assert page.locator(".per-token tr.on th").inner_text() == "the" and page.locator(".lines .flow:not(.pale)").count() > 0


def test_the_row_that_is_looked_at_is_certified(page, tiny, model):
    run = model.run(SHORT)
    query, key = run.stored_call(2).query[0, 3].double(), run.stored_call(2).key[0, 1].double()
    true = (query[5] @ key[:6].T * run.stored_call(2).call.scale).softmax(-1)
    off = float((run.weights(2, 3)[5, :6].double() - true).abs().max())
    opened(page, tiny, f"head/2/3;text={address(SHORT)}")
    line = page.locator(".certified")
    page.wait_for_selector(".certified .mark.bound")
    assert line.inner_text().startswith("row 10 .: no weight is off by more than "), "the last row, as long as none is pointed at"
    with page.expect_response(lambda response: "/certificate/2/3/5" in response.url) as told:
        page.locator(".short-map rect[data-at='5,2']").hover()
    wait(page, "document.querySelector('.certified').innerText.startsWith('row 5 mat')")
    found = told.value.json()
    assert off <= found["weights"]["error"] < 1e-6
    assert line.inner_text() == f"row 5 mat: no weight is off by more than {scientific(found['weights']['error'])}"
    line.locator(".mark").focus()
    tip = page.locator(".tip:popover-open").inner_text()
    assert tip.startswith("Certified bound\nRow 5: each of its 11 weights is within") and "units of the last place" in tip and "ball arithmetic" in tip
    opened(page, tiny, f"head/1/4;text={address(LONG)};token=200;key=50")
    wait(page, "document.querySelector('.zoom .certified')?.innerText.startsWith('row 200 ')")


def test_a_row_that_cannot_be_certified_says_why(browser, tiny):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    said = {"error": {"kind": "ArgumentError", "message": "query must be finite, got NaN."}}
    page.route("**/certificate/**", lambda route: route.fulfill(status=400, json=said))
    opened(page, tiny, f"head/0/1;text={address(SHORT)}")
    page.wait_for_selector(".certified .sign.refused")
    assert page.locator(".certified").inner_text() == "Not certified. query must be finite, got NaN."
    context.close()


def test_marks_tell_the_residual_of_the_proof(page, tiny):
    with page.expect_response(lambda response: response.url.endswith("/proof")) as told:
        opened(page, tiny, f"model/1/1;text={address(SHORT)}")
    verdicts = told.value.json()["verdicts"]
    assert len(verdicts) >= 6
    for verdict in verdicts:
        line = page.locator(f".proof [data-check={verdict['name']}]")
        assert line.get_attribute("data-state") == verdict["state"] == "passes"
        if verdict["residual"]:
            assert line.locator(".mark").get_attribute("data-tip").split("residual ")[1].split(",")[0] == scientific(verdict["residual"])
            assert line.locator(".gauge .value").inner_text() == scientific(verdict["residual"])
    page.locator(".stat[data-measure=entropy] .mark").hover()
    assert page.locator(".tip:popover-open").inner_text().startswith("Equals the model’s own output\nLayer 1:")
    page.locator(".stat[data-measure=first] .mark").focus()
    assert "residual" in page.locator(".tip:popover-open").inner_text()


def scientific(number: float) -> str:
    if number >= 0.01:
        return f"{number:.3f}"
    digits, power = f"{number:.1e}".split("e")
    return f"{digits}·10{''.join('⁻⁰¹²³⁴⁵⁶⁷⁸⁹'['-0123456789'.index(one)] for one in str(int(power)))}"


def probabilities(page) -> dict[str, str]:
    return {one.get_attribute("data-token"): one.get_attribute("data-probability") for one in page.locator(".effect .chance").all()}


def test_an_edit_moves_the_output_and_undo_brings_it_back_exactly(page, tiny, model, tmp_path):
    opened(page, tiny, f"head/1/3;text={address(SHORT)}")
    page.wait_for_selector(".dose")
    loaded = probabilities(page)
    logits = model.run(SHORT).outputs["logits"][0, -1].softmax(-1)
    assert len(loaded) == 8
    assert all(float(share) == pytest.approx(float(logits[int(token)]), rel=1e-5) for token, share in loaded.items())
    slider = page.locator("input[type=range]")
    slider.focus()
    page.keyboard.press("Home")
    wait(page, "document.querySelectorAll('.edits li').length === 1 && document.querySelector('.effect .mark.equal')")
    assert page.locator(".edits li").inner_text() == "L1 H3 ablated"
    edited = probabilities(page)
    assert any(edited[token] != loaded[token] for token in loaded)
    right = model.edit([hw.Ablate(1, 3)]).run(SHORT).outputs["logits"][0, -1].softmax(-1)
    assert all(float(share) == pytest.approx(float(right[int(token)]), rel=1e-4, abs=1e-7) for token, share in edited.items())
    divergence = float((logits * (logits.log() - right.log())).sum())
    told = page.locator("[data-effect=kl] .value").inner_text()
    assert float(told.strip()) == pytest.approx(divergence, abs=6e-5)
    assert page.locator("[data-effect=others] .value").inner_text().strip() == "unchanged"
    page.get_by_role("button", name="Undo").click()
    wait(page, "document.querySelectorAll('.edits li').length === 0")
    assert probabilities(page) == loaded and page.locator(".amount-now").inner_text() == "1.00"
    page.get_by_role("button", name="Redo").click()
    wait(page, "document.querySelectorAll('.edits li').length === 1 && document.querySelector('.effect .mark.equal')")
    wait(page, f"document.querySelector('.effect .chance').dataset.probability !== '{next(iter(loaded.values()))}'")
    assert probabilities(page) == edited
    saved(page, right)
    page.get_by_role("button", name="take away the edit").click()
    wait(page, "document.querySelectorAll('.edits li').length === 0")


def saved(page, right: torch.Tensor) -> None:
    """Save the edited model, and read it with plain transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert "Will rewrite 1 of" in page.locator(".edits .note").inner_text()
    page.get_by_role("button", name="Save as checkpoint").click()
    page.locator(".save input").fill("page-test")
    page.keyboard.press("Enter")
    page.wait_for_selector(".edits .note:has-text('Saved to')")
    path = page.locator(".edits .note code").inner_text()
    tokenizer, plain = AutoTokenizer.from_pretrained(path), AutoModelForCausalLM.from_pretrained(path)
    with torch.no_grad():
        found = plain(**tokenizer(SHORT, return_tensors="pt")).logits[0, -1].softmax(-1)
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-6)
    shutil.rmtree(path)


def test_silencing_from_the_grid_marks_the_head(page, tiny):
    opened(page, tiny, f"model/2/5;text={address(SHORT)}")
    page.get_by_role("button", name="Ablate").click()
    page.wait_for_selector(".edits li")
    assert page.locator(".edits li").inner_text() == "L2 H5 ablated"
    page.get_by_role("button", name="Undo").click()
    wait(page, "document.querySelectorAll('.edits li').length === 0")


def test_an_encoder_shows_the_cosine_of_its_embedding(page, tiny):
    opened(page, tiny, f"head/1/1;model=bert;text={address(SHORT)}")
    page.wait_for_selector(".dose")
    assert page.locator(".effect .stat").first.inner_text().split("\n")[0].startswith("cosine")
    page.locator("input[type=range]").focus()
    page.keyboard.press("Home")
    page.wait_for_selector(".edits li")
    wait(page, "/^0\\.\\d+/.test(document.querySelector('.effect .stat .value').innerText.trim())")
    page.get_by_role("button", name="Undo").click()
    wait(page, "document.querySelectorAll('.edits li').length === 0")


def test_steps_lead_to_the_neighbours(page, tiny):
    opened(page, tiny, f"head/0/0;text={address(SHORT)}")
    assert page.get_by_role("button", name="layer before").is_disabled()
    page.get_by_role("button", name="next layer").click()
    page.get_by_role("button", name="next head").click()
    assert page.locator("h1").inner_text() == "Layer 1 · Head 1" and "head/1/1" in page.evaluate("location.hash")
    assert page.evaluate("document.activeElement.innerText") == "head ↓"
    page.locator(".siblings button").nth(2).click()
    assert page.locator("h1").inner_text() == "Layer 1 · Head 2"

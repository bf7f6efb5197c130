"""Edits: the address repeats them, the output shows them at once, keys take them back, and what is saved can be opened and compared."""

import shutil

import pytest

import headwise as hw
from tests.frontend.look import audited, opened, wait
from tests.server.models import TEXT

MODEL = f"model/2/5;text={TEXT.replace(' ', '+')}"


def state(page) -> str:
    return page.evaluate("location.hash")


def edit_texts(page) -> str:
    return " | ".join(page.locator(".edits li").all_inner_texts())


@pytest.fixture(scope="module")
def model(checkpoints):
    return hw.open_model(checkpoints["llama"])


def test_a_link_makes_its_edits_and_the_output_shows_them(page, tiny, model):
    opened(page, tiny, f"{MODEL};edits=silence:1.3,scale:0.2:0.5,nonsense,scale:2.1")  # the word of earlier releases
    page.wait_for_selector(".stage [data-effect=mean_kl]")
    assert edit_texts(page) == "L1 H3 ablated | L0 H2 × 0.50"
    assert state(page).endswith("edits=ablate:1.3,scale:0.2:0.5"), "what makes no sense is left out"
    before, after = (one.run(TEXT).outputs["logits"][0] for one in (model, model.edit([hw.Ablate(1, 3), hw.Scale(0, 2, 0.5)])))
    right, rows = after[-1].softmax(-1), page.locator(".stage .chance").all()
    shown = [float(one.get_attribute("data-probability")) for one in rows]
    assert shown == sorted(shown, reverse=True), "what is likeliest now comes first"
    assert shown == [pytest.approx(float(right[int(one.get_attribute("data-token"))]), rel=1e-4) for one in rows]
    assert all(words.endswith(" pp") for words in page.locator(".stage .change").all_inner_texts())
    each = (before.double().softmax(-1) * (before.double().log_softmax(-1) - after.double().log_softmax(-1))).sum(-1)
    for name, value in (("kl", each[-1]), ("mean_kl", each.mean())):
        assert float(page.locator(f"[data-effect={name}] .value").inner_text()) == pytest.approx(float(value), abs=6e-5)
    assert page.locator("[data-effect=kl] .name").inner_text() == "KL, last token, nats"
    assert page.locator("[data-effect=mean_kl] .name").inner_text() == "KL, mean of 11 tokens, nats"
    assert page.locator(".stage").last.locator(".sub").first.inner_text().startswith("next token with 2 edits · tick: as loaded")
    assert audited(page) == []


def test_a_silenced_head_s_writes_are_said_to_be_as_loaded(page, tiny):
    opened(page, tiny, f"{MODEL};edits=ablate:2.5")
    page.wait_for_selector(".edits li")
    assert page.locator(".stat[data-measure=write_norm] .name").inner_text().split() == ["write", "norm", "as", "loaded"]
    page.keyboard.press("Control+z")
    wait(page, "document.querySelector('.stat[data-measure=write_norm] .name').innerText === 'write norm'")


def test_edits_outlive_a_reload_and_the_way_back_and_keys_undo_them(page, tiny):
    opened(page, tiny, MODEL)
    page.get_by_role("button", name="Ablate").click()
    page.wait_for_selector(".edits li")
    wait(page, "location.hash.endsWith('edits=ablate:2.5')")
    page.keyboard.press("2")
    page.wait_for_selector(".edits li")
    page.reload()
    page.wait_for_selector(".edits li", timeout=60_000)
    assert edit_texts(page) == "L2 H5 ablated"
    page.keyboard.press("Control+z")
    wait(page, "!document.querySelector('.edits li') && !location.hash.includes('edits')")
    page.keyboard.press("Control+Shift+Z")
    wait(page, "document.querySelector('.edits li') && location.hash.includes('edits=ablate:2.5')")
    page.go_back()
    wait(page, "document.querySelector('.gridview') && location.hash.startsWith('#model/2/5')")
    assert edit_texts(page) == "L2 H5 ablated" and "edits=ablate:2.5" in state(page), "the way back undoes no edit"
    page.evaluate(f"location.hash = '#{MODEL};edits=scale:0.1:2'")
    wait(page, "document.querySelector('.edits li').innerText === 'L0 H1 × 2.00'")


def test_edits_of_a_part_are_told_apart(page, tiny):
    opened(page, tiny, f"model;model=t5;text={TEXT.replace(' ', '+')};edits=ablate:decoder.cross/1.2")
    page.wait_for_selector(".edits li")
    assert edit_texts(page) == "L1 H2 ablated" and state(page).endswith("edits=ablate:decoder.cross/1.2")
    page.locator("[aria-label=model]").select_option("llama")
    wait(page, "document.querySelector('.stage [data-probability]') && !document.querySelector('.edits li')")
    assert "model=llama" in state(page) and "edits" not in state(page), "edits are of one model"


def test_edits_that_cannot_be_made_are_told(page, tiny, browser):
    opened(page, tiny.split("?")[0], f"head/1/1;text={TEXT.replace(' ', '+')};edits=ablate:1.1")
    page.wait_for_selector(".edits")
    wait(page, "/The address names edits, which are not made here/.test(document.querySelector('.edits').innerText)")
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    other = opened(context.new_page(), tiny, f"{MODEL};edits=ablate:0.1,silence:9.9")
    other.wait_for_selector(".edits .note.fails")
    assert "no head 9 in layer 9" in other.locator(".edits .note.fails").inner_text()
    assert edit_texts(other) == "L0 H1 ablated"
    wait(other, "location.hash.endsWith('edits=ablate:0.1')")
    context.close()


def test_what_is_saved_can_be_opened_and_compared(page, tiny):
    opened(page, tiny, f"{MODEL};edits=ablate:1.3")
    page.wait_for_selector(".edits li")
    page.get_by_role("button", name="Save as checkpoint").click()
    page.locator(".save input").fill("../evil")
    page.keyboard.press("Enter")
    assert "got “../evil”. Choose another." in page.locator(".save .note.fails").inner_text()
    assert page.locator(".save input").input_value() == "../evil"
    page.locator(".save input").fill("silent")
    page.keyboard.press("Enter")
    saved = page.locator(".edits .note:has-text('Saved to')")
    saved.wait_for()
    path = saved.locator("code").inner_text()
    assert page.locator(".note.fails").count() == 0
    page.get_by_role("button", name="Double").click()
    wait(page, "document.querySelectorAll('.edits li').length === 2")
    assert saved.count() == 0 and "Will rewrite 2 of" in page.locator(".edits .note").inner_text(), "what was saved is another model now"
    page.locator(".edits button", has_text="Undo").click()
    wait(page, "document.querySelectorAll('.edits li').length === 1")
    page.locator("[aria-label=model]").select_option("silent")
    page.wait_for_selector("[aria-label=model] option:has-text('silent · 3 × 6')", state="attached", timeout=60_000)
    page.wait_for_selector(".blue [data-check='model']", timeout=60_000)
    assert edit_texts(page) == "" and "model=silent" in state(page)
    page.keyboard.press("5")
    page.locator(".bar select").first.wait_for()
    assert [one.input_value() for one in page.locator(".bar select").all()] == ["llama", "silent"], "the pair that fits is offered"
    page.locator(".bar button", has_text="Compare").click()
    page.wait_for_selector(".three[data-drawn]", timeout=60_000)
    assert page.locator(".compared tbody tr").first.get_attribute("data-row") == "L1 H3"
    assert page.locator(".rail .quiet").inner_text().startswith("Writes nothing any more (gain 0.000")
    assert page.locator(".rail .plot .verdict-icon").count() == 1 and page.locator(".rail .plot text").all_text_contents().count("0") == 2, (
        "a place left of the scale"
    )
    changes = [float(row.locator("td").nth(1).inner_text().lstrip("<")) for row in page.locator(".compared tbody tr").all()]
    assert changes == sorted(changes, reverse=True) and changes[0] == 1
    page.locator(".bar select").first.select_option("bert")
    wait(page, "/No other model of the architecture of/.test(document.querySelector('.centre .note').innerText)")
    assert page.locator(".bar button", has_text="Compare").is_disabled()
    shutil.rmtree(path)

"""Five moves: each attack fells exactly what was proved, at every number of heads; every number tells what it was made of."""

import re

import pytest

import headwise as hw
from headwise.conformance.mutations.mutation import mutations
from tests.frontend.look import opened

CODES = ("M1", "M2", "M3", "M4", "M5")


def shown(page, code: str) -> str:
    return page.locator(f".proof [data-move={code}]").get_attribute("data-state")


@pytest.mark.parametrize("h", [1, 2, 4])
def test_each_attack_fells_exactly_its_invariants(page, tiny, h):
    opened(page, tiny, f"moves;h={h}")
    for name in (None, *mutations("exact")):
        right = hw.five_moves(h, name)
        if name is not None:
            card = page.locator(f"[data-attack={name}]")
            announced = card.locator(".broken-moves .falls").all_inner_texts()
            card.click()
            assert page.locator(f"[data-attack={name}]").get_attribute("aria-pressed") == "true"
            assert tuple(announced) == right.fallen
        assert {code: shown(page, code) for code in CODES} == {code: verdict.state for code, verdict in right.verdicts.items()}
        badge = page.locator(".badge").inner_text()
        whole = "4 hold, M5 vacuous" if h == 1 else "5 of 5 hold"
        assert badge.startswith(" ".join([", ".join(right.fallen), "falls" if len(right.fallen) == 1 else "fall"]) if right.fallen else whole)
        squares = page.locator(".badge .squares i.falls").count()
        assert squares == len(right.fallen)
        witness = page.locator(".witness th.on + td, .witness th.on ~ td").all()
        states = [re.search(r"holds|falls|vacuous", cell.locator("span").first.get_attribute("aria-label"))[0] for cell in witness]
        assert states == [right.witness[code].state for code in CODES]


def test_every_matrix_shows_its_numbers(page, tiny):
    opened(page, tiny, "moves;h=2;attack=omit_scale")
    found = hw.five_moves(2, "omit_scale")
    matrices = {name: found.matrices[name] for name in ("x", "concat", "out")} | {f"map.{name}": rows for name, rows in found.maps.items()}
    for name in ("q", "k", "v", "scores", "weights", "z", "writes"):
        matrices |= {f"{name}.{head}": rows for head, rows in enumerate(found.matrices[name])}
    for name, rows in matrices.items():
        cells = page.locator(f".matrix[data-id='{name}'] td").all_inner_texts()
        assert [float(cell.replace("−", "-")) for cell in cells] == pytest.approx([number for row in rows for number in row], abs=0.00501)
    assert page.locator(".matrix").count() == len(matrices)


def test_pointing_at_a_number_frames_what_it_was_made_of(page, tiny):
    opened(page, tiny, "moves;h=2")
    page.locator(".matrix[data-id='weights.1'] td[data-at='2,1']").hover()
    formula = page.locator(".formula").inner_text()
    right = hw.five_moves(2).matrices["weights"][1][2][1]
    assert "weight[2,1] = exp(2.65) ÷ (exp(2.83) + exp(2.65) + exp(1.59))" in formula and f"= {right:.4f}" in formula and "= 1.000000" in formula
    framed = page.locator(".matrix[data-id='scores.1'] td.source").evaluate_all("cells => cells.map(cell => cell.dataset.at)")
    assert framed == ["2,0", "2,1", "2,2"] and page.locator(".matrix td.source").count() == 3
    page.locator(".matrix[data-id='out'] td[data-at='0,3']").hover()
    assert page.locator(".matrix td.source").count() == 4 + 4 + 2


def test_a_lie_is_told_where_it_was_told(page, tiny):
    opened(page, tiny, "moves;h=2;attack=omit_scale;pin=scores.0:0,0")
    assert "≠ 0.3536: the attack gave 0.5000" in page.locator(".formula").inner_text()


def test_numbers_are_reached_by_arrows_and_held(page, tiny):
    opened(page, tiny, "moves;h=2")
    page.locator(".matrix[data-id='z.0'] td[tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "z[1,1]" in page.locator(".formula").inner_text()
    page.keyboard.press("Enter")
    assert "pin=z.0:1,1" in page.evaluate("location.hash")
    page.mouse.move(5, 5)
    page.locator(".brand").hover()
    assert "z[1,1]" in page.locator(".formula").inner_text()
    assert page.locator(".matrix[data-id='z.0'] [tabindex='0']").count() == 1


def test_sizes_are_those_of_a_layer(page, tiny):
    opened(page, tiny, "moves;width=768;heads=12;kv=4;length=2048")
    row = page.locator(".sizes tr.on").inner_text().split("\t")
    layer = hw.MultiHeadAttention(768, 12, num_kv_heads=4, bias=False)
    parameters = sum(one.numel() for one in layer.parameters())
    assert row[0].startswith("12 heads") and row[1] == "64" and row[2] == f"{parameters / 1e6:.2f} M"
    assert row[3] == f"{2 * 2048 * parameters / 1e9:.2f} G" and row[4] == f"{4 * 2048**2 * 768 / 1e9:.1f} G"
    assert row[5] == "2.00 MiB" and row[6] == "192 MiB"
    page.locator(".sizes [name=heads]").select_option("48")
    assert "heads=48" in page.evaluate("location.hash") and page.locator(".sizes tr.on").inner_text().startswith("48 heads")
    page.locator(".sizes [name=width]").select_option("5120")
    page.locator(".sizes [name=heads]").select_option("12")
    assert "heads must divide the width, got 12 and 5,120" in page.locator(".sizes .note").inner_text()

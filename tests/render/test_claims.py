import pytest

from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.investigate import ClaimResult, ClaimResults
from headwise.render.claim_plot import plot_figure
from headwise.render.results.claims_table import amount_read, claims_page, short


def told(verdict: str, about_model: bool = True) -> ClaimResult:
    claim = Claim("Heads are many.", "We 2020", "https://example.org", "20 %.", "More than one.", "One.", "Count.", lambda study: None, about_model)
    card = Card(verdict, "So it is.", {"share | all": Number(0.5, "of heads", 0.25, 0.75, "share", "20 %"), "n": Number(7.0)}, None, "Some.", 16, 700, "next")
    return ClaimResult("many", claim, card, 12.4, "tiny")


def test_a_page_has_a_section_a_claim_and_a_verdict_a_model():
    models = {name: ClaimResults([told(verdict), told("cut", False)]).json()["claims"] for name, verdict in (("demo:a", "kept"), ("demo:b", "inconclusive"))}
    page = claims_page(models)
    assert "| claim | demo:a | demo:b |" in page
    assert "| Heads are many. | ✓ kept | ? inconclusive |" in page
    assert "**demo:b: inconclusive.** *Some.* So it is. 16 texts, 700 tokens. Loss: next. 12 s." in page
    assert "| share / all | 0.5 | 0.25 … 0.75 | share | 20 % |" in page and "| n | 7 |  |  |  |" in page
    assert page.count("**models trained for this claim: cut.**") == 1


def test_what_was_read():
    assert amount_read(told("kept").card) == "16 texts, 700 tokens, loss: next. "
    assert amount_read(Card("kept", "x")) == ""
    assert amount_read(Card("kept", "x", texts=1, tokens=9)) == "1 text, 9 tokens. "


@pytest.mark.parametrize(
    ("value", "said"), [(0.5, "0.5"), (1234.56, "1235"), (3.0, "3"), (1e-5, "1e-05"), (float("nan"), "–"), (None, "–"), (-0.12345, "-0.1235")]
)
def test_numbers_are_short(value, said):
    assert short(value) == said


@pytest.mark.parametrize("kind", ["line", "points", "bars"])
def test_every_kind_of_picture_is_drawn(kind):
    series = [Series("ours", [1, 2, 4], [3.0, 2.0, 2.5], [2.9, 1.9, 2.4], [3.1, 2.1, 2.6]), Series("theirs", [1, 2, 4], [3.0, 2.5, 2.0])]
    figure = plot_figure(Plot(kind, "heads", "loss", series, log_x=kind == "line", log_y=kind == "points", reference=2.2), "More heads")
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")) == ("heads", "loss", "More heads")
    assert axes.get_xscale() == ("log" if kind == "line" else "linear") and axes.get_yscale() == ("log" if kind == "points" else "linear")
    drawn = {"line": len(axes.lines) - 1, "points": len(axes.collections), "bars": len(axes.patches) / 3}[kind]
    assert drawn == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "theirs"]

"""Heads removed at random from models with few and many heads: what is said of results made by hand."""

import pytest

from headwise.experiments.estimates.seed_interval import mean_over_seeds
from headwise.experiments.trained import random_removal as removed


def results(few: float, many: float, seeds: int = 3) -> dict:
    """Models with 2 and 8 heads, whose loss rises by about so much, each draw and seed a little otherwise."""

    def model(heads: int, seed: int, rise: float) -> dict:
        losses = [rise + 0.01 * seed + 0.02 * draw for draw in (-1, 0, 1)]
        return {"heads": heads, "seed": seed, "loss": 2.0, "removed": [{"share": 0.25, "losses": [9.0]}, {"share": 0.5, "losses": losses}]}

    return {"models": [model(heads, seed, rise) for seed in range(seeds) for heads, rise in ((2, few), (8, many))]}


def test_each_number_of_heads_has_its_mean_over_draws():
    found = removed.loss_increases(results(1.0, 0.4))
    assert list(found) == ["removed, h = 2", "removed, h = 8", removed.DIFFERENCE]
    by_hand = mean_over_seeds([0.4, 0.41, 0.42])
    number = found["removed, h = 8"]
    assert (number.value, number.low, number.high) == pytest.approx((by_hand.value, by_hand.low, by_hand.high))
    assert found[removed.DIFFERENCE].value == pytest.approx(-0.6)


@pytest.mark.parametrize(
    ("few", "many", "words"),
    [(1.0, 0.4, "with more heads: harder to silence"), (0.4, 1.0, "with more heads: easier to silence"), (0.5, 0.5, "with more heads: no certain difference")],
)
def test_what_is_said(few, many, words):
    said = removed.removal_sentence(removed.loss_increases(results(few, many)))
    assert words in said
    assert "2 heads" in said and "8" in said


def test_nothing_is_said_without_such_models(monkeypatch, tmp_path):
    monkeypatch.setattr(removed, "path_of", lambda name: tmp_path / "none.json")
    assert removed.removal_numbers() == {}
    assert "is not known" in removed.removal_sentence({})
    assert removed.loss_increases({"models": []}) == {}
    assert removed.loss_increases(results(1.0, 0.4, seeds=1)) == {}


def test_what_was_trained_is_read(monkeypatch, tmp_path):
    (tmp_path / "there.json").write_text("{}")
    monkeypatch.setattr(removed, "path_of", lambda name: tmp_path / "there.json")
    monkeypatch.setattr(removed, "read", lambda name: results(0.5, 0.4) if name == "more_heads" else None)
    assert set(removed.removal_numbers()) == {"removed, h = 2", "removed, h = 8", removed.DIFFERENCE}

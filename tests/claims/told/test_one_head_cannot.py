import pytest

from headwise.claims.told.one_head_cannot import ENTRY, judge
from headwise.claims.trained import results


def planted(one: float, two: float, spread: float = 0.002) -> dict:
    models = [
        {
            "heads": heads,
            "seed": seed,
            "both": right + spread * (seed - 1),
            "before": 0.99,
            "matched": 0.98,
            "curve": [4.0, 2.0 / heads],
            "weights": [[0.5, 0.4]] if heads == 1 else [[0.01, 0.9], [0.95, 0.02]],
        }
        for seed in (0, 1, 2)
        for heads, right in ((1, one), (2, two))
    ]
    return {"models": models, "settings": {"heads": [1, 2], "seeds": [0, 1, 2]}}


@pytest.mark.parametrize(
    ("one", "two", "spread", "verdict"),
    [
        (0.4, 0.99, 0.002, "kept"),
        (0.98, 0.99, 0.002, "cut"),
        (0.88, 0.99, 0.002, "can't tell"),
        (0.4, 0.5, 0.002, "can't tell"),
        (0.7, 0.99, 0.2, "can't tell"),
    ],
)
def test_the_verdict_follows_from_what_was_answered(one, two, spread, verdict):
    assert judge(planted(one, two, spread)).verdict == verdict


def test_the_solution_is_shown():
    card = judge(planted(0.4, 0.99))
    assert card.numbers["weight of the first of two on the token before"].value == pytest.approx(0.95)
    assert card.numbers["weight of the second of two on the match"].value == pytest.approx(0.9)
    assert card.numbers["weight of the one head on the match"].value == pytest.approx(0.4)
    assert "one puts 0.95 on the token before and the other 0.90 on the match" in card.says
    assert [list(series.y) for series in card.plot.series] == [[4.0, 2.0], [4.0, 1.0]]


def test_the_card_is_made_from_what_was_trained():
    found, card = results.read("two_patterns"), ENTRY.work(None)
    for heads, words in ((1, "one head"), (2, "two heads")):
        right = [model["both"] for model in found["models"] if model["heads"] == heads]
        assert card.numbers[f"{words}, both right"].value == pytest.approx(sum(right) / 3)
    assert not ENTRY.about_model

from math import comb
from statistics import NormalDist

import pytest

from headwise.experiments.claims.one_head_cannot import ENTRY, fisher, judge
from headwise.experiments.trained import stored_results as results


def planted(one: list[float], two: list[float]) -> dict:
    """Trainings with these shares of texts in which both answers were right."""
    models = [
        {
            "heads": heads,
            "seed": seed,
            "both": right,
            "before": 0.99 - 0.01 * seed,
            "matched": right,
            "loss": 1 - right,
            "curve": [4.0, 2.0 / heads + seed],
            "weights": [[0.5, 0.4 + right / 100]] if heads == 1 else [[0.01, 0.9 + right / 100], [0.95, 0.02]],
        }
        for heads, rights in ((1, one), (2, two))
        for seed, right in enumerate(rights)
    ]
    return {"models": models}


FAILED, SOLVED = [0.12, 0.2, 0.1, 0.15, 0.12], [0.99, 0.98, 0.99, 1.0, 0.97]


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        (FAILED, SOLVED, "kept"),
        (FAILED, [*SOLVED[:4], 0.1], "kept"),
        (FAILED, [*SOLVED[:2], 0.1, 0.1, 0.1], "inconclusive"),
        (FAILED, FAILED, "inconclusive"),
        ([*FAILED[:4], 0.96], SOLVED, "cut"),
        (SOLVED, FAILED, "cut"),
    ],
)
def test_the_verdict_follows_from_who_solves_it(one, two, verdict):
    assert judge(planted(one, two)).verdict == verdict


@pytest.mark.parametrize("counts", [(0, 8, 7, 8), (0, 3, 2, 3), (2, 5, 4, 6), (3, 3, 3, 3), (0, 4, 0, 4)])
def test_the_p_value_is_the_tail_of_the_hypergeometric_distribution(counts):
    ours, of_ours, theirs, of_theirs = counts
    every = ours + theirs
    ways = sum(comb(of_theirs, k) * comb(of_ours, every - k) for k in range(theirs, min(of_theirs, every) + 1))
    assert fisher(*counts) == pytest.approx(ways / comb(of_ours + of_theirs, every))


def test_the_solution_is_shown():
    card = judge(planted(FAILED, SOLVED))
    assert card.numbers["two heads, first, weight on the token before"].value == 0.95
    assert card.numbers["two heads, second, weight on the match"].value == pytest.approx(0.91)  # of the best, whose share is 1
    assert card.numbers["one head, weight on the match"].value == pytest.approx(0.402)
    assert "one attends to the previous token (0.95) and the other to the match (0.91)" in card.summary
    assert [list(series.y) for series in card.plot.series] == [[4.0, 3.0], [4.0, 4.0]]
    share = card.numbers["two heads, trainings that solve it"]
    low = 5 / (5 + NormalDist().inv_cdf(0.975) ** 2)  # Wilson's lower end where all of five succeed
    assert (share.value, share.low, share.high) == (1.0, pytest.approx(low, abs=1e-6), pytest.approx(1.0))


def test_the_card_is_made_from_what_was_trained():
    found, card = results.read("two_patterns"), ENTRY.run(None)
    for heads, words in ((1, "one head"), (2, "two heads")):
        models = [model for model in found["models"] if model["heads"] == heads]
        assert card.numbers[f"{words}, trainings that solve it"].value == sum(model["both"] > 0.95 for model in models) / len(models)
        assert card.numbers[f"{words}, the match"].value == pytest.approx(sum(model["matched"] for model in models) / len(models))
    assert not ENTRY.about_model

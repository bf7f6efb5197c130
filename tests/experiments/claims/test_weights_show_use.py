"""Ranks and moved weights put together: what is said, and what a model whose weights say nothing gets."""

from dataclasses import replace

import pytest
import torch

import tests.typechecking
from headwise.experiments.card import Number
from headwise.experiments.claims import weights_show_use
from headwise.experiments.measurements import perturbed_weights as moved
from headwise.experiments.measurements.input_attribution import RankAgreement
from headwise.experiments.measurements.perturbed_weights import PerturbationResult
from headwise.experiments.study import Study
from tests.analysis.toys import decoder
from tests.experiments.sample_stories import stories

pytestmark = pytest.mark.usefixtures("plain")
TEXTS = stories(6)


@pytest.fixture(scope="module")
def study():
    return Study(decoder(), TEXTS, length=11)


@pytest.fixture(scope="module")
def card(study):
    with pytest.MonkeyPatch.context() as patch, tests.typechecking.unchecked():
        patch.setattr(moved, "STEPS", 30)
        return weights_show_use.run(study)


def test_the_card_of_a_random_model(card):
    assert card.verdict == "cut"
    assert abs(card.numbers["hidden"].value) < 0.3
    assert card.numbers["far"].low > 0.25
    assert card.numbers["row_sums"].value < 1e-5
    assert (card.measure, card.texts) == ("kl", 6)
    assert "A head's weights agree with the effect of masking each token at τ = " in card.summary
    assert len(card.plot.series[0].x) == 18


def test_the_most_important_heads_are_those_whose_ablation_costs_most(study):
    importance = (study.effects * study.counts[:, None, None]).sum(0).flatten()
    known = {divmod(place, 6) for place in importance.argsort(descending=True)[:12].tolist()}
    found = weights_show_use._most_important(study)
    assert set(found) == known
    assert found == sorted(found)


def agreed(hidden: float, by_length: float | None = None) -> list[RankAgreement]:
    """Eight texts, two heads; head 0.1 is better by 0.1."""
    taus = [torch.tensor([[hidden + 0.01 * text, hidden + 0.1 + 0.01 * text]]) for text in range(-4, 4)]
    lengths = [None if by_length is None else torch.full((1, 2), by_length - 0.01 * text) for text in range(-4, 4)]
    return [RankAgreement(tau, tau / 2, length, hidden, 1e-7) for tau, length in zip(taus, lengths, strict=True)]


def shifted(far: float) -> list[list[PerturbationResult]]:
    ones = torch.ones(2)
    return [[PerturbationResult(ones, 0.5 * ones, 0.2 * ones, (far + 0.01 * text) * ones, far * ones)] for text in range(-4, 4)]


def numbers(hidden: float, far: float, by_length: float | None = None) -> dict[str, Number]:
    return {**weights_show_use._ranks(agreed(hidden, by_length), 0), **weights_show_use._distances(shifted(far), 0)}


@pytest.mark.parametrize(
    ("hidden", "far", "verdict"), [(0.7, 0.1, "kept"), (0.1, 0.6, "cut"), (0.1, 0.1, "corrected"), (0.7, 0.6, "corrected"), (0.46, 0.6, "inconclusive")]
)
def test_the_verdict(hidden, far, verdict):
    found = numbers(hidden, far)
    assert weights_show_use._verdict(found["hidden"], found["far"]) == verdict


def test_what_is_measured_of_ranks():
    found = numbers(0.3, 0.6, by_length=0.6)
    assert found["hidden"].value == pytest.approx(0.3 + 0.05 - 0.005)
    assert found["slope"].value == pytest.approx(found["hidden"].value / 2)
    assert "head 0.1, which was best on the other half" in found["hidden_best"].means
    assert found["length_adds"].value == pytest.approx(found["hidden_by_length"].value - found["hidden"].value)
    assert found["permuted"].value == pytest.approx(0.5)
    assert found["uniform"].value == pytest.approx(0.2)


def test_what_is_said():
    assert "Weighted by the norms of the transformed values, τ is 0.60." in weights_show_use._summary(numbers(0.1, 0.6, by_length=0.597), 2)
    assert "no certain difference" in weights_show_use._summary(numbers(0.1, 0.6, by_length=0.145), 2)
    assert "Weighted by the norms" not in weights_show_use._summary(numbers(0.1, 0.6), 2)
    assert "weights at 60 % (" in weights_show_use._summary(numbers(0.1, 0.605), 2)
    assert weights_show_use._correction(numbers(0.7, 0.6)["hidden"]).startswith("They rank what is used")
    assert weights_show_use._correction(numbers(0.1, 0.1)["hidden"]).startswith("The output depends on them")


def test_how_many_texts_would_tell():
    found = numbers(0.46, 0.6)
    assert weights_show_use._needed(found, 8).startswith("About ")
    on_the_bar = replace(found["hidden"], value=0.5)
    assert weights_show_use._needed({"hidden": on_the_bar, "far": found["far"]}, 8) == "More texts would not decide."


def test_a_model_without_a_loss_of_its_own_is_measured_by_its_output(study):
    assert weights_show_use._measure(study) == "kl"
    other = Study(decoder(), TEXTS, length=14)
    other.loss = "cosine"
    assert weights_show_use._measure(other) == "cosine"


def test_too_few_texts():
    card = weights_show_use.run(Study(decoder(), TEXTS[:2], length=14))
    assert card.summary == "The agreement of weights with attributions needs at least 6 texts to be measured; got 2. Give more texts."

"""Roles, doubles and heads that can go: a head that was made to play a role plays it, a random model's heads play none."""

import pytest
import torch

from headwise.experiments.card import Number
from headwise.experiments.claims import distinct_roles
from headwise.experiments.study import Study
from tests.analysis.plain import loss, without
from tests.analysis.toys import decoder
from tests.experiments.previous_token_model import previous
from tests.experiments.sample_stories import stories

pytestmark = pytest.mark.usefixtures("plain")
TEXTS = stories(8)


@pytest.fixture(scope="module")
def planted():
    return Study(previous(), TEXTS, length=24)


@pytest.fixture(scope="module")
def random():
    return Study(decoder(), TEXTS, length=24)


def test_the_planted_head_has_its_role_and_the_other_has_none(planted):
    assert planted.roles["role"].values.tolist() == [["position: -1", "none"]]
    found = distinct_roles._roles(planted)
    assert (found["with_role"].value, found["with_role"].low, found["roles"].value, found["own_role"].value, found["heads"].value) == (0.5, 0.5, 1, 1, 2)


def test_a_model_that_was_never_trained_has_no_roles(untrained):
    found = distinct_roles._roles(untrained)
    assert (found["with_role"].low, found["roles"].value, found["heads"].value) == (0, 0, 18)


def test_heads_with_similar_patterns_are_duplicates(random):
    assert distinct_roles._alike(random).value == 0
    double = decoder()
    with torch.no_grad():
        queries = double.hf.model.layers[1].self_attn.q_proj.weight
        queries[8:12] = queries[4:8]  # head 1.2 asks as 1.1 does, of the same key head
    found = distinct_roles._alike(Study(double, TEXTS, length=24))
    assert (found.value, found.low, found.high) == (2 / 18, 2 / 18, 2 / 18)


def test_where_few_texts_order_the_heads_all_others_judge(monkeypatch):
    monkeypatch.setattr("headwise.experiments.study.ABLATION_FLOPS", 0)
    study = Study(decoder(), stories(11), length=24)
    order, other = distinct_roles._ordered(study)
    weights = study.counts[study.ablation_texts]
    importance = (study.effects * weights[:, None, None]).sum(0)
    assert [6 * layer + head for layer, head in order.tolist()] == importance.flatten().argsort().tolist()
    assert sorted([*other.tolist(), *study.ablation_texts]) == list(range(11))


def test_the_curve_is_the_loss_without_the_least_important_heads(random):
    curves = distinct_roles._curves(random)
    one, other = distinct_roles.split_halves(8, 0)
    importance = (random.effects[one] * random.counts[one, None, None]).sum(0)
    order = importance.flatten().argsort().tolist()
    gone = [divmod(place, 6) for place in order[: round(0.4 * 18)]]
    number = sorted(other.tolist())[1]
    text = {"input_ids": torch.tensor([random.model.tokenizer(random.texts[number])["input_ids"]])}
    base = loss(random.model.hf, text)
    risen = loss(without(random.model.hf, "llama", gone), text) - base
    curve = curves["least important first"]
    assert float(curve.rises[1, curve.shares.index(0.4)]) * distinct_roles.loss_scale(random) == pytest.approx(risen, abs=1e-4)
    assert float(curve.rises[:, 0].abs().max()) < 1e-9
    assert [len(curves[name].rises) for name in curves] == [4, 4, 4]


def test_heads_that_write_nothing_can_all_go():
    model = decoder()
    with torch.no_grad():
        for layer in model.hf.model.layers:
            layer.self_attn.o_proj.weight.zero_()
    study = Study(model, TEXTS, length=24)
    found = distinct_roles._can_go(distinct_roles._curves(study)["least important first"], study)
    assert (found.value, found.low, found.high) == (1, 1, 1)


def test_a_share_that_can_go_has_its_ends(random):
    rises = torch.tensor([[0.0, 0.001, 0.004, 0.05], [0.0, 0.002, 0.02, 0.07], [0.0, 0.001, 0.004, 0.09]])
    curve = distinct_roles.AblationCurve((0.0, 0.1, 0.2, 0.3), rises, torch.ones(3))
    found = distinct_roles._can_go(curve, random)
    assert (found.low, found.value, found.high) == (0.1, 0.2, 0.2)


@pytest.mark.parametrize(
    ("role", "alike", "gone", "verdict"),
    [
        ((0.96, 1.0), (0.0, 0.02), (0.0, 0.02), "kept"),
        ((0.96, 1.0), (0.0, 0.2), (0.0, 0.02), "corrected"),
        ((0.1, 0.4), (0.0, 0.02), (0.0, 0.02), "cut"),
        ((0.96, 1.0), (0.6, 0.7), (0.0, 0.02), "cut"),
        ((0.96, 1.0), (0.0, 0.02), (0.65, 0.8), "cut"),
        ((0.3, 0.7), (0.1, 0.2), (0.1, 0.3), "corrected"),
        ((0.0, 0.7), (0.1, 0.2), (0.1, 0.3), "inconclusive"),
    ],
)
def test_the_verdict(role, alike, gone, verdict):
    ends = {"with_role": role, "alike": alike, "can_go": gone}
    assert distinct_roles._verdict({name: Number((low + high) / 2, low=low, high=high) for name, (low, high) in ends.items()}) == verdict


@pytest.mark.parametrize(
    ("role", "own", "sentence"),
    [(0.3, 2, "Some heads do."), (0.9, 2, "Most have a role, but share it with other heads."), (0.9, 15, "Most heads do.")],
)
def test_the_correction(role, own, sentence):
    numbers = {"with_role": Number(role, low=role, high=1.0), "heads": Number(20), "own_role": Number(own)}
    assert distinct_roles._correction(numbers) == sentence


def test_the_card(planted):
    card = distinct_roles.run(planted)
    assert "1 of 2 heads certainly have one of the" in card.summary
    assert "before the loss rises by 1 %" in card.summary
    assert (card.measure, card.texts) == ("next", 8)
    assert [series.name for series in card.plot.series] == ["least important first", "at random", "most important first"]
    assert all(len(series.x) == len(series.y) == len(series.low) == len(series.high) for series in card.plot.series)


def test_too_few_texts():
    card = distinct_roles.run(Study(decoder(), TEXTS[:3], length=24))
    assert card.summary == "The share of heads that can be removed needs at least 8 texts to be measured; got 3. Give more texts."

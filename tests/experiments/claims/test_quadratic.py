"""Exponents of known growth, memory as the system says it, pairs counted against masks written out; and the rule on numbers made up."""

import sys

import pytest
import torch

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.errors import ModelError
from headwise.experiments.claims import quadratic
from headwise.experiments.claims.quadratic import ENTRY
from headwise.experiments.measurements import growth
from headwise.experiments.measurements import peak_memory as held
from headwise.experiments.measurements.growth import Shape, eager, exponent, implementations, seconds
from headwise.experiments.measurements.visible_pairs import visible_pairs
from headwise.experiments.study import Study
from tests.analysis.toys import encoder
from tests.experiments.claims.planted_models import llama, opened
from tests.experiments.sample_stories import stories
from tests.models.tiny import build, ids

TEXTS = stories(2, 3)
SHAPE = Shape(1, 8, True)
NAMES = ("eager", "fused", "headwise", "headwise, window")


def taken(powers: dict[str, float], noise: float = 0.0) -> dict[str, list[list[float]]]:
    random = torch.Generator().manual_seed(0)
    return {
        name: [[1e-9 * length**power * float(1 + noise * torch.randn(1, generator=random)) for length in growth.LENGTHS] for _ in range(growth.ROUNDS)]
        for name, power in powers.items()
    }


@pytest.fixture
def measured(monkeypatch, plain):
    """The card for growth that is made up."""

    def card(time: tuple[float, ...], memory: tuple[float, ...], model=None, noise: float = 0.0):
        monkeypatch.setattr(quadratic, "seconds", lambda shape, **options: taken(dict(zip(NAMES, time, strict=True)), noise))
        monkeypatch.setattr(
            quadratic,
            "measure_peaks",
            lambda shape: {name: [1e-6 * length**power for length in growth.LENGTHS] for name, power in zip(NAMES, memory, strict=True)},
        )
        return ENTRY.run(Study(model or opened(llama()), TEXTS))

    return card


def test_time_is_quadratic_and_memory_need_not_be(measured):
    card = measured((2.1, 2.0, 1.9, 1.0), (2.0, 1.0, 1.1, 1.0))
    assert (card.verdict, card.correction) == ("corrected", "Its time is; its memory need not be.")
    assert card.numbers["time, fused"].value == pytest.approx(2)
    assert card.numbers["doubling, eager"].value == pytest.approx(2**2.1)
    assert card.numbers["memory, headwise"].value == pytest.approx(1.1)
    assert "grows as T^2.10 eager, T^2.00 fused, T^1.90 headwise" in card.summary
    assert "No layer of this model hides any keys beyond causal masking, so no pairs are saved." in card.summary
    assert [series.name for series in card.plot.series] == list(NAMES)


def test_all_quadratic_is_kept_and_all_linear_is_cut(measured, plain):
    assert measured((2.1, 2.0, 1.9, 1.0), (2.0, 2.0, 1.9, 1.0)).verdict == "kept"
    assert measured((1.1, 1.0, 1.2, 1.0), (1.0, 1.0, 1.0, 1.0)).verdict == "cut"


def test_exponents_between_are_not_told(measured, plain):
    assert measured((2.1, 1.0, 1.9, 1.0), (2.0, 1.0, 1.0, 1.0)).verdict == "inconclusive"
    assert measured((1.5, 1.5, 1.5, 1.0), (2.0, 1.0, 1.0, 1.0), noise=0.3).verdict == "inconclusive"
    assert measured((2.0, 2.0, 2.0, 1.0), (2.0, 1.5, 1.6, 1.0)).verdict in ("kept", "inconclusive")


def test_where_memory_cannot_be_read_nothing_is_told(measured, monkeypatch):
    measured((2.0, 2.0, 2.0, 1.0), (2.0, 1.0, 1.0, 1.0))
    monkeypatch.setattr(held, "CLEAR", held.Path("/no/such/file"))
    monkeypatch.setattr(quadratic, "measure_peaks", held.measure_peaks)
    card = ENTRY.run(Study(opened(llama()), TEXTS))
    assert card.verdict == "inconclusive"
    assert "Memory could not be measured: peak memory must be read from /proc/self/status, got no such file on this system." in card.summary


def test_windows_save_pairs(measured, plain):
    model = hw.open_model(build("gemma2", vocab_size=len(encoder().tokenizer)), encoder().tokenizer)
    card = measured((2.0, 2.0, 2.0, 1.0), (2.0, 1.0, 1.0, 1.0), model)
    assert card.numbers["narrow layers"].value == 2
    assert "2 of this model's 3 layers hide keys beyond causal masking; with 4096 tokens this saves " in card.summary
    length = 4096
    everything, narrow = length * (length + 1) / 2, 4 * length - 6
    assert card.numbers["pairs"].value == pytest.approx((2 * narrow + everything) / (3 * everything))


@pytest.mark.parametrize(
    ("name", "kind"), [("llama", "next"), ("mistral", "next"), ("gemma2", "next"), ("modernbert", "cosine"), ("gpt2", "next"), ("bert", "cosine")]
)
def test_pairs_are_those_of_the_masks_of_a_longer_text(name, kind):
    model, length = hw.open_model(build(name)), 29
    found = visible_pairs(Evaluator(model, kind).open(ids(batch=1, length=9)), length)
    run = model.run(ids(batch=1, length=length), statistics=())
    for layer, pairs in enumerate(found.pairs):
        seen = torch.stack([run.weights(layer, head) > 0 for head in range(6)]).any(0)
        assert pairs == int(seen.sum()), layer
    assert found.causal == (name not in ("bert", "modernbert"))
    assert found.everything == (length * (length + 1) // 2 if found.causal else length**2)


def test_a_mask_that_is_a_tensor_says_nothing_of_longer_texts(measured):
    model = opened(llama())
    passage = Evaluator(model, "next").open({"input_ids": ids(batch=2, length=9), "attention_mask": torch.tensor([[1] * 9, [1] * 6 + [0] * 3])})
    assert visible_pairs(passage, 29).pairs == (None, None, None)


def test_a_model_whose_masks_are_tensors(measured, monkeypatch):
    monkeypatch.setattr(quadratic, "visible_pairs", lambda passage, length: quadratic.VisiblePairs(length, (None, None, None), 10, True))
    card = measured((2.0, 2.0, 2.0, 1.0), (2.0, 1.0, 1.0, 1.0))
    assert "The visible pairs of this model in longer texts cannot be determined, because it builds its masks as tensors." in card.summary
    monkeypatch.setattr(quadratic, "visible_pairs", lambda passage, length: quadratic.VisiblePairs(length, (10, None, None), 10, True))
    card = measured((2.0, 2.0, 2.0, 1.0), (2.0, 1.0, 1.0, 1.0))
    assert "2 of 3 layers build their masks as tensors, so their visible pairs cannot be determined." in card.summary


@pytest.mark.parametrize("causal", [True, False])
def test_all_ways_compute_the_same(causal):
    query, key, value = growth.random_inputs(Shape(2, 8, causal), 40)
    found = implementations(causal)
    known = eager(query, key, value, causal)
    assert torch.allclose(found["fused"](query, key, value), known, atol=1e-5)
    assert torch.allclose(found["headwise"](query, key, value).output, known, atol=1e-5)
    assert torch.allclose(found["headwise, window"](query, key, value).output, known, atol=1e-5)  # a window wider than the text


def test_every_round_is_timed_and_told_of():
    told = []
    found = seconds(SHAPE, (16, 32, 64), 2, lambda stage, done, total: told.append((done, total)))
    assert set(found) == set(NAMES)
    assert all(len(rounds) == 2 and len(row) == 3 and min(row) > 0 for rounds in found.values() for row in rounds)
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_exponent_is_the_slope():
    assert exponent([10, 100, 1000], [5e-3, 5e-2, 5e-1]) == pytest.approx(1)
    assert exponent([10, 20, 40], [1.0, 8.0, 64.0]) == pytest.approx(3)


@pytest.mark.skipif(not held.CLEAR.exists(), reason="peak memory is read from Linux")
def test_memory_of_a_process_of_its_own():
    found = held.measure_peaks(SHAPE)
    assert set(found) == set(NAMES)
    scores = 4 * 4096**2 / (1 << 20)  # MiB of one head's scores
    assert scores < found["eager"][-1] < 4 * scores
    assert max(found["fused"][-1], found["headwise"][-1]) < scores / 2
    assert exponent(growth.LENGTHS, found["eager"]) > 1.7


def test_a_process_that_fails_is_said(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ModelError, match=r"peak memory must be measured in a process of its own, got exit code 1: \."):
        held.measure_peaks(SHAPE)


def test_a_process_that_takes_too_long_is_said(monkeypatch):
    monkeypatch.setattr(held, "LIMIT", 0.01)
    with pytest.raises(ModelError, match=r"peak memory must be measured within 0\.01 s, got no answer\. The machine is busy: try again"):
        held.measure_peaks(SHAPE)

"""The judge is judged: by attention in plain Python, by steps into the imaginary direction, and by numbers worked out on paper."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.conformance.conventions import OURS, Conventions
from headwise.conformance.oracles.layer_oracle import published_slopes
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.problem_pool import core_problems, make_layer_problem, make_problem, option_problems, size_problems
from headwise.conformance.problems.random_tensors import random_normal
from tests.attention import oracle as plain

PROBLEMS = {**core_problems(), **size_problems(), **{name: entry for name, entry in option_problems().items() if entry.shape[3] < 60}}


def asked(entry: Problem) -> tuple[list[np.ndarray], dict]:
    options = {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in entry.options.items()}
    return [x.numpy() for x in (entry.query, entry.key, entry.value)], options


@pytest.mark.parametrize("name", PROBLEMS)
def test_output_weights_and_lse_are_those_of_plain_python(name):
    tensors, options = asked(PROBLEMS[name])
    right, found = plain.attention(*tensors, **options), PROBLEMS[name].expected()
    for got, want in ((found.output, right.output), (found.weights, right.weights), (found.lse, right.lse)):
        np.testing.assert_allclose(got.numpy(), want.real, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(PROBLEMS[name].visible().numpy(), right.seen)


@pytest.mark.parametrize("name", ["everything", "mask by head", "more queries than keys", "offset per row", "softcap", "bias of one row"])
def test_gradients_are_slopes(name):
    entry = PROBLEMS[name]
    upstream = random_normal(*entry.shape[:3], entry.value.shape[3], seed=1)
    found = entry.expected(OURS, upstream).gradients
    tensors, options = asked(entry)
    parts = dict(zip(("query", "key", "value"), tensors, strict=True)) | {key: options[key] for key in ("bias", "sink") if key in options}

    def loss(name, moved):
        changed = {**parts, name: moved}
        rest = {key: value for key, value in options.items() if key not in parts}
        rest |= {key: changed[key] for key in ("bias", "sink") if key in changed}
        return (plain.attention(changed["query"], changed["key"], changed["value"], **rest).output * upstream.numpy()).sum()

    for name in parts:
        some = np.random.default_rng(0).choice(parts[name].size, min(parts[name].size, 6), replace=False)
        for place in (np.unravel_index(n, parts[name].shape) for n in some):
            moved = parts[name].astype(complex)
            moved[place] += plain.STEP * 1j
            np.testing.assert_allclose(found[name].numpy()[place], loss(name, moved).imag / plain.STEP, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("dead_row", "right"), [("zero", 0.0), ("nan", torch.nan), ("mean", 3.0)])
def test_a_row_that_sees_nothing_is_as_declared(dead_row, right):
    entry = Problem(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 3, 1), torch.tensor([[[[1.0], [2], [6]]]]), mask=torch.zeros(3, dtype=torch.bool))
    found = entry.expected(Conventions(dead_row=dead_row))
    torch.testing.assert_close(found.output.flatten(), torch.tensor([right], dtype=torch.float64), equal_nan=True)


def test_a_sink_takes_all_of_a_row_that_sees_nothing():
    entry = make_problem(mask=torch.zeros(5, dtype=torch.bool), sink=random_normal(4))
    for dead_row in ("zero", "nan", "mean"):
        assert not entry.expected(Conventions(dead_row=dead_row)).output.any()
    torch.testing.assert_close(entry.expected().lse, entry.sink[None, :, None].expand(2, 4, 3))


def test_the_corner_is_as_declared_unless_the_offset_is_given():
    entry = make_problem(causal=True)
    assert entry.visible(Conventions(corner="top-left")).sum(-1)[0, 0].tolist() == [1, 2, 3]
    assert entry.visible().sum(-1)[0, 0].tolist() == [3, 4, 5]
    given = entry.replace(query_offset=1)
    assert given.visible(Conventions(corner="top-left")).equal(given.visible())


def test_key_heads_are_shared_by_neighbours_or_read_in_turn():
    entry = make_problem().replace(value=torch.arange(2.0).double()[None, :, None, None].expand(2, 2, 5, 1))
    assert entry.expected().output[0, :, 0, 0].tolist() == pytest.approx([0, 0, 1, 1])
    assert entry.expected(Conventions(key_heads="in turn")).output[0, :, 0, 0].tolist() == pytest.approx([0, 1, 0, 1])


def test_what_is_hidden_stays_out_and_what_is_seen_does_not():
    entry = core_problems()["mask by head"]
    poisoned = entry.replace(value=entry.value.index_fill(2, torch.tensor([4]), torch.nan))
    blind = ~entry.visible()[..., 4]
    torch.testing.assert_close(poisoned.expected().output[blind], entry.expected().output[blind])
    assert poisoned.expected().output[~blind].isnan().all()


def turned(x: torch.Tensor, at: torch.Tensor, base: float, pairing: str) -> torch.Tensor:
    """Rotary by 2 × 2 matrices."""
    half, result = x.shape[-1] // 2, x.clone()
    for m in range(half):
        first, second = (m, m + half) if pairing == "halves" else (2 * m, 2 * m + 1)
        angle = at.double() * base ** (-m / half)
        result[..., first] = x[..., first] * angle.cos() - x[..., second] * angle.sin()
        result[..., second] = x[..., first] * angle.sin() + x[..., second] * angle.cos()
    return result


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_rotary_is_a_turn_of_pairs(pairing):
    entry = make_layer_problem(position=Rotary(base=50.0, pairing=pairing), sizes={"head_dim": 4})
    bare = replace(entry, position=make_layer_problem().position).inner_problem()
    torch.testing.assert_close(entry.inner_problem().query, turned(bare.query, torch.arange(5), 50.0, pairing))
    torch.testing.assert_close(entry.inner_problem().key, turned(bare.key, torch.arange(5), 50.0, pairing))


def test_alibi_is_a_slope_times_the_distance():
    bias = make_layer_problem(position=Alibi((0.5, 1.0, 2.0, 3.0))).inner_problem().bias
    assert bias[0, 2].tolist() == [[-2.0 * abs(i - j) for j in range(5)] for i in range(5)]
    assert published_slopes(4) == [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    assert published_slopes(12)[8:] == [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]


def test_buckets_are_those_of_t5():
    table = torch.arange(32.0).double()[:, None].expand(32, 4)
    entry = make_layer_problem(tokens=140, position=RelativeBuckets(table))
    first = entry.inner_problem().bias[0, 0, 0].tolist()
    assert [first[n] for n in (0, 1, 7, 8, 11, 12, 16, 127, 139)] == [0, 17, 23, 24, 24, 25, 26, 31, 31]

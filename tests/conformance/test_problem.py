"""A problem is a value: it can be written down and read back, changed, cut to what a subject knows, and compared in size."""

import pytest
import torch

from headwise.attention.layer import LayerParams
from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.conformance.capabilities import ABILITIES, LAYER_ABILITIES, OPTIONS
from headwise.conformance.minimise.shrinker import complexity
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.problem_filter import fit
from headwise.conformance.problems.problem_pool import core_problems, layer_problems, make_problem, option_problems, size_problems
from headwise.conformance.problems.source_code import to_source

NAMES = {
    "torch": torch,
    "Problem": Problem,
    "LayerProblem": LayerProblem,
    "LayerParams": LayerParams,
    "Rotary": Rotary,
    "Alibi": Alibi,
    "RelativeBuckets": RelativeBuckets,
}
SMALL = {
    **core_problems(),
    **size_problems(),
    "offset as a tensor": option_problems()["offset as a tensor"],
    "two-sided window": option_problems()["two-sided window"],
}


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
    return one == other


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SMALL)
def test_its_repr_makes_it_again(name, dtype):
    entry = SMALL[name].to(dtype)
    again = eval(repr(entry), NAMES)
    assert entry.options.keys() == again.options.keys()
    assert all(same(getattr(entry, part), getattr(again, part)) for part in ("query", "key", "value", *entry.options))


@pytest.mark.parametrize("name", layer_problems())
def test_the_repr_of_a_layer_makes_it_again(name):
    again = eval(repr(layer_problems()[name]), NAMES)
    torch.testing.assert_close(again.expected().output, layer_problems()[name].expected().output)


@pytest.mark.parametrize("view", [torch.Tensor.contiguous, lambda x: x.mT.contiguous().mT, lambda x: x[:, :1].expand(x.shape), lambda x: x[..., ::2]])
def test_strides_are_written_down(view):
    x = view(torch.arange(24.0).reshape(2, 3, 2, 2))
    again = eval(to_source(x), NAMES)
    assert again.stride() == x.stride()
    assert torch.equal(again, x)


def test_numbers_that_are_none_are_written_down():
    assert to_source(torch.tensor([torch.nan, torch.inf])) == "torch.tensor([torch.nan, torch.inf])"
    assert to_source((1,)) == "(1,)"
    assert eval(to_source(torch.zeros(0, 2)), NAMES).shape == (0, 2)


def test_smaller_is_fewer_numbers_then_fewer_options_then_whole_numbers():
    one = Problem(*(torch.ones(1, 1, 1, 1) for _ in range(3)))
    fraction, causal, larger = one.replace(value=one.value / 2), one.replace(causal=True), make_problem()
    assert sorted([larger, causal, fraction, one], key=complexity) == [one, fraction, causal, larger]


def test_options_are_what_is_not_as_usual():
    assert make_problem().options == {}
    assert core_problems()["negative scale"].options == {"causal": True, "scale": -0.5}


@pytest.mark.parametrize("left_out", OPTIONS)
def test_what_is_not_honoured_is_taken_away(left_out):
    entry = core_problems()["everything"].replace(query_offset=[0, 1], dropout=0.5)
    cut = fit(entry, frozenset({*OPTIONS, *ABILITIES}) - {left_out})
    assert cut.options.keys() == entry.options.keys() - {left_out}


def test_groups_widths_heads_and_offsets_are_cut_to_what_is_known():
    entry = core_problems()["mask by head"].replace(query_offset=[0, 1])
    cut = fit(entry, frozenset(OPTIONS))
    assert list(cut.key.shape) == [2, 4, 5, 4]
    assert list(cut.value.shape) == [2, 4, 5, 4]
    assert cut.mask.shape[1] == 1
    assert cut.query_offset == 0


def test_a_problem_that_is_all_known_stays_the_same_object():
    entry = core_problems()["everything"]
    assert fit(entry, frozenset({*OPTIONS, *ABILITIES})) is entry


def test_empty_problems_are_for_those_who_take_them():
    assert fit(make_problem(keys=0), frozenset(OPTIONS)) is None
    assert fit(make_problem(keys=0), frozenset({*OPTIONS, *ABILITIES})) is not None


def test_layers_are_cut_to_what_is_known():
    known = frozenset({*OPTIONS, *ABILITIES, *LAYER_ABILITIES})
    assert fit(layer_problems()["in chunks"], known - {"chunks"}) is None
    assert fit(layer_problems()["cross-attention"], known - {"context"}) is None
    bare = fit(layer_problems()["rotary"], known - {"rotary", "biases", "groups"})
    assert bare.options == {"causal": True}
    assert bare.params.b_q is None
    assert bare.params.w_k.shape[1] == 4

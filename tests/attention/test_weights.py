"""Exact weights of any rectangle, from q, k, lse and the call alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention.attend import compute, make_call
from headwise.attention.call import Call
from headwise.attention.weights import masked_scores, weights
from tests.attention.backends import every_backend
from tests.attention.problem import Problem, agree, normal
from tests.attention.rounding import allowed
from tests.attention.strategies import problems


def call_for(problem: Problem) -> Call:
    return make_call(problem.query, problem.key, **{name: value for name, value in problem.options.items() if name != "segments"})


def all_of(problem: Problem, lse: torch.Tensor) -> torch.Tensor:
    queries, keys = problem.shape[2:]
    return weights(problem.query, problem.key, lse, call_for(problem), slice(0, queries), slice(0, keys))


@given(problem=problems(lengths=(7, 3, 5, 11, 2, 1)))
def test_weights_are_those_of_plain_python(problem):
    found = all_of(problem, problem.run("reference").lse)
    right = torch.from_numpy(problem.double().oracle().weights.real)
    agree(found, right, allowed(problem).weights, "weights")
    assert (found.masked_select(~problem.seen()) == 0).all()


@given(problem=problems(lengths=(7, 3, 11, 31), plain=True), data=st.data())
def test_a_rectangle_is_a_part_of_the_whole(problem, data):
    queries, keys = problem.shape[2:]
    (a, b), (c, d) = (sorted(data.draw(st.integers(0, n)) for _ in "ab") for n in (queries, keys))
    lse, fine = problem.run("reference").lse, allowed(problem).weights
    part = weights(problem.query, problem.key, lse, call_for(problem), slice(a, b), slice(c, d))
    agree(part, all_of(problem, lse)[:, :, a:b, c:d], fine[:, :, a:b, c:d], "weights")


@every_backend
def test_rows_and_sink_are_one_within_the_contract(backend):
    """On ordinary numbers in float32, within 5e-6 of float64."""
    q, k = normal(2, 6, 70, 16, dtype=torch.float32), normal(2, 3, 90, 16, seed=1, dtype=torch.float32)
    problem = Problem(q, k, k, {"causal": True, "sink": normal(6, seed=2, dtype=torch.float32), "softcap": 5.0, "window": 40})
    said = problem.run(backend, "sink")
    found = all_of(problem, said.lse)
    right = all_of(problem.double(), problem.double().run("reference").lse)
    assert found.dtype == torch.float32
    assert (found - right).abs().max() < 5e-6
    assert (found.sum(-1) + said.statistics["sink"] - 1).abs().max() < 5e-6
    assert (found > 0.2).any()


@every_backend
def test_weights_give_the_output(backend):
    problem = Problem(normal(2, 4, 7, 5), normal(2, 2, 9, 5, seed=1), normal(2, 2, 9, 3, seed=2), {"bias": normal(4, 7, 9, seed=3), "scale": -0.4})
    said = problem.run(backend)
    torch.testing.assert_close(all_of(problem, said.lse) @ problem.value.repeat_interleave(2, 1), said.output)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_what_is_hidden_is_0_whatever_it_holds(poison):
    q, k = normal(1, 2, 3, 4), normal(1, 1, 5, 4, seed=1)
    bias = torch.zeros(5, dtype=q.dtype)
    bias[1] = -torch.inf
    mask = torch.tensor([True, True, True, True, False])
    problem = Problem(q, k, k, {"bias": bias, "mask": mask})
    right = all_of(problem, problem.run("reference").lse)
    k = k.clone()
    k[:, :, [1, 4]] = poison
    poisoned = problem.having(key=k)
    found = all_of(poisoned, poisoned.run("reference").lse)
    torch.testing.assert_close(found, right)
    assert (found[..., [1, 4]] == 0).all()


def test_rows_that_see_nothing_are_0_with_and_without_a_sink():
    q, k = normal(1, 2, 3, 4), normal(1, 1, 5, 4, seed=1)
    for options in ({}, {"sink": torch.tensor([0.5, 1.0])}):
        problem = Problem(q, k, k, {"mask": torch.tensor([[True], [False], [True]]).expand(3, 5), **options})
        found = all_of(problem, problem.run("reference").lse)
        assert (found[:, :, 1] == 0).all()
        assert (found[:, :, [0, 2]] > 0).all()


def test_a_nan_that_is_seen_stays_in_its_row():
    q, k = normal(1, 2, 3, 4), normal(1, 1, 5, 4, seed=1)
    q[0, 1, 2] = torch.nan
    problem = Problem(q, k, k, {"causal": True, "query_offset": 1})
    found = all_of(problem, problem.run("reference").lse)
    assert found.isnan().sum() == 4  # the keys that it sees
    assert found[0, 1, 2, :4].isnan().all()
    assert found[0, 1, 2, 4] == 0


def test_scores_as_the_softmax_sees_them():
    """Scale, cap, bias, mask, in this order."""
    q = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    k = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)[None, None, :, None]
    bias = torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64)
    call = make_call(q, k, scale=2.0, softcap=4.0, bias=bias, mask=torch.tensor([True, True, False]))
    found = masked_scores(q, k, call, slice(0, 1), slice(0, 3), torch.float64)
    right = 4 * torch.tanh(torch.tensor([2.0, -4.0], dtype=torch.float64) / 4) + bias[:2]
    torch.testing.assert_close(found[0, 0, 0, :2], right)
    assert found[0, 0, 0, 2] == -torch.inf


def test_low_precision_is_read_exactly():
    """Keys in bfloat16, weights in float32: as though the same numbers had come in float32."""
    q, k = normal(1, 2, 3, 8, dtype=torch.bfloat16), normal(1, 1, 5, 8, seed=1, dtype=torch.bfloat16)
    low = compute(q, k, k, make_call(q, k), (), "reference").lse
    found = weights(q, k, low, make_call(q, k), slice(0, 3), slice(0, 5))
    right = weights(q.float(), k.float(), low, make_call(q.float(), k.float()), slice(0, 3), slice(0, 5))
    assert torch.equal(found, right)

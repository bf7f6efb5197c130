"""Shrinking: by a rule of one's own, to the smallest problem that still fails it."""

import torch

from headwise.conformance.minimise.shrinker import Effort, complexity, shrink
from headwise.conformance.problems.problem_pool import layer_problems, make_problem, padding_mask

EFFORT = Effort(5000, 60.0)


def test_what_fails_always_shrinks_to_one_number_of_each():
    least, complete = shrink(make_problem(causal=True, mask=padding_mask(5, 5, 2), scale=-0.5), lambda p: True, EFFORT)
    assert complete
    assert least.shape == (1, 1, 1, 1)
    assert least.options == {}
    assert [x.tolist() for x in least.float_tensors().values()] == [[[[[0.0]]]]] * 3


def test_only_what_is_needed_is_kept():
    least, complete = shrink(
        make_problem(causal=True, mask=padding_mask(5, 5, 2), scale=-0.5), lambda p: p.causal and p.shape[3] > 1 and p.key.shape[1] > 1, EFFORT
    )
    assert complete
    assert least.shape == (1, 2, 1, 2)
    assert least.options == {"causal": True}


def test_offsets_in_a_tensor_shrink_with_the_batch_and_may_stay_a_tensor():
    some = make_problem(3, causal=True, query_offset=torch.tensor([2, 1, 4]))
    least, _ = shrink(some, lambda p: isinstance(p.query_offset, torch.Tensor), EFFORT)
    assert least.query_offset.numel() == 1
    assert least.shape == (1, 1, 1, 1)
    number, _ = shrink(some, lambda p: p.query_offset is not None, EFFORT)
    assert number.query_offset == 0


def test_a_layer_shrinks_too():
    least, complete = shrink(layer_problems()["everything"], lambda p: p.window is not None, EFFORT)
    assert complete
    assert set(least.options) == {"window"}
    assert least.shape == (1, 1, 1, 1)
    assert least.params.b_o is None


def test_what_is_out_of_time_is_said_to_be_so():
    some = make_problem()
    least, complete = shrink(some, lambda p: True, Effort(3, 60.0))
    assert not complete
    assert complexity(least) < complexity(some)


def test_a_problem_that_makes_no_sense_is_passed_over():
    def fails(p):
        if p.shape[2] < 3:
            raise ValueError("too short")
        return True

    least, _ = shrink(make_problem(queries=5), fails, EFFORT)
    assert least.shape[2] == 3


def test_the_usual_dtype_is_plainer():
    some = make_problem(seed=3).to(torch.float64)
    assert shrink(some, lambda p: True, EFFORT)[0].query.dtype == torch.float32
    assert shrink(some, lambda p: p.query.dtype == torch.float64, EFFORT)[0].query.dtype == torch.float64

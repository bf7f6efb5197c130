"""The law of the same answer: memory between calls is seen, and a subject that cannot be copied is not accused."""

import threading

import torch

from headwise.conformance.invariants.invariant import first_finding, invariants
from headwise.conformance.mutations.mutable_attention import MutableAttention, output

NAME = "determinism"
LAW = invariants()[NAME]


class Locked(MutableAttention):
    """A lock cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError(f"cannot pickle {type(threading.Lock()).__name__!r} object")


class Counting:
    """Each call adds a little more."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, at):
        self.calls += 1
        return output(at) + self.calls


def scribbling(at):
    with torch.no_grad():
        at.problem.key.mul_(2)
    return output(at)


def test_a_subject_that_cannot_be_copied_is_not_accused():
    assert first_finding(NAME, LAW, Locked(), "quick") is None


def test_memory_between_calls_is_seen():
    found = first_finding(NAME, LAW, MutableAttention({"output": Counting()}), "quick")
    assert found.why == "The same call twice gives different bits."


def test_an_input_that_is_changed_is_seen_and_put_back():
    problem = LAW.problems(MutableAttention(), "quick")[0]
    before = problem.key.clone()
    found = LAW.judge(MutableAttention({"output": scribbling}), problem)
    assert found.why == "The call changed its input key."
    assert torch.equal(problem.key, before)

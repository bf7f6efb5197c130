"""Each reported fault: our engine gives the right value, and whoever tells the fault again gives another and is caught."""

from contextlib import suppress

import pytest
import torch

from headwise.catalog import entries
from headwise.conformance.adapters.headwise_attention import HeadwiseAttend, HeadwiseLayer
from headwise.conformance.invariants.invariant import applies_to, callable_invariants, first_finding, judge
from headwise.conformance.mutations.mutable_attention import MutableAttention
from headwise.conformance.mutations.mutable_layer import MutableLayer
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.problems.layer_problem import LayerProblem
from tests.conformance.cases import CASES

FAULTS = {name: case for name, case in CASES.items() if not name.startswith("CTRL")}
CONTROLS = {name: case for name, case in CASES.items() if name.startswith("CTRL")}


def lie(case) -> Mutation:
    return entries("headwise.conformance.mutations")[case.description]


def honest(case) -> list:
    """Our engine, by every way that can be asked this."""
    if isinstance(case.problem, LayerProblem):
        return [HeadwiseLayer(), MutableLayer()]
    return (
        [MutableAttention()] if case.mode.training else [HeadwiseAttend(), *(HeadwiseAttend(kernel) for kernel in HeadwiseAttend().paths), MutableAttention()]
    )


def right(case, subject) -> bool:
    """Whether the subject gives the right value."""
    if case.expected is None:
        return all(judge(name, callable_invariants()[name], subject, case.problem) is None for name in case.laws)
    found = case.look(subject.attend(case.problem, case.mode)).detach()
    return found.shape == case.expected.shape and torch.allclose(found.double(), case.expected.double(), rtol=1e-5, atol=case.within, equal_nan=True)


def test_there_are_112():
    assert len(CASES) == 112
    assert len(CONTROLS) == 6


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_our_engine_is_right(case):
    if case.id == "CTRL-06":
        return  # it asks for another map from query heads to key heads than ours, and that is what the control declares
    for subject in honest(case):
        assert right(case, subject), subject.name
        for name in case.laws:
            if applies_to(callable_invariants()[name], subject):
                assert judge(name, callable_invariants()[name], subject, case.problem) is None


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_the_fault_gives_another_value_and_is_caught(case):
    ways = lie(case).told
    assert set(case.told) <= set(ways)
    for way in case.told or ways:
        with suppress(RuntimeError, ZeroDivisionError):
            assert case.expected is None or not right(case, lie(case).subjects()[way]), way
        for name in case.laws:
            law, liar = callable_invariants()[name], lie(case).subjects()[way]
            found = judge(name, law, liar, case.problem) or first_finding(name, law, lie(case).subjects()[way], "quick")
            assert found is not None, f"{way}: {name} did not see it"


@pytest.mark.parametrize("case", CONTROLS.values(), ids=CONTROLS)
def test_what_is_no_fault_is_right_and_accused_by_nobody(case):
    for subject in lie(case).subjects().values():
        assert right(case, subject)
        for name in case.laws:
            assert judge(name, callable_invariants()[name], subject, case.problem) is None
            assert first_finding(name, callable_invariants()[name], subject, "quick") is None

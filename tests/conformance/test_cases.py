"""Each reported fault: headwise gives the expected value, and the mutation that reproduces the fault gives another and is detected."""

from contextlib import suppress

import pytest
import torch

from headwise.conformance.adapters.headwise_attention import HeadwiseAttend, HeadwiseLayer
from headwise.conformance.invariants.invariant import first_finding, invariants, judge
from headwise.conformance.mutations.mutable_attention import MutableAttention
from headwise.conformance.mutations.mutable_layer import MutableLayer
from headwise.conformance.mutations.mutation import Mutation, mutations
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from tests.conformance.cases import CASES

FAULTS = {name: case for name, case in CASES.items() if not name.startswith("CTRL")}
CONTROLS = {name: case for name, case in CASES.items() if name.startswith("CTRL")}
INVARIANTS = invariants("call", "layer")


def mutation(case) -> Mutation:
    return mutations()[case.mutation]


def unmutated(case) -> list:
    """headwise's own implementation, in every form that takes the problem."""
    if isinstance(case.problem, LayerProblem):
        return [HeadwiseLayer(), MutableLayer()]
    return (
        [MutableAttention()] if case.mode.training else [HeadwiseAttend(), *(HeadwiseAttend(kernel) for kernel in HeadwiseAttend().paths), MutableAttention()]
    )


def correct(case, subject, problem=None) -> bool:
    """Whether the subject gives the expected value."""
    problem = case.problem if problem is None else problem
    if case.expected is None:
        return all(judge(name, INVARIANTS[name], subject, problem) is None for name in case.invariants)
    found = case.part(subject.attend(problem, case.mode)).detach()
    return found.shape == case.expected.shape and torch.allclose(found.double(), case.expected.double(), rtol=1e-5, atol=case.within, equal_nan=True)


def test_there_are_112():
    assert len(CASES) == 112
    assert len(CONTROLS) == 6


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_our_implementation_is_correct(case):
    problem = with_tiled_heads_repeated(case.problem) if case.id == "CTRL-06" else case.problem
    for subject in unmutated(case):
        assert correct(case, subject, problem), subject.name
        for name in case.invariants:
            if INVARIANTS[name].applies_to(subject):
                assert judge(name, INVARIANTS[name], subject, problem) is None


def with_tiled_heads_repeated(problem: Problem) -> Problem:
    """The control declares key/value heads in turn; headwise gives its values where they are repeated in that order beforehand."""
    heads = torch.arange(problem.shape[1]) % problem.key.shape[1]
    return problem.replace(key=problem.key[:, heads], value=problem.value[:, heads])


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_the_fault_gives_another_value_and_is_detected(case):
    variants = mutation(case).subjects()
    assert set(case.variants) <= set(variants)
    for variant in case.variants or variants:
        with suppress(RuntimeError, ZeroDivisionError):
            assert case.expected is None or not correct(case, mutation(case).subjects()[variant]), variant
        for name in case.invariants:
            invariant, mutated = INVARIANTS[name], mutation(case).subjects()[variant]
            found = judge(name, invariant, mutated, case.problem) or first_finding(name, invariant, mutation(case).subjects()[variant], "quick")
            assert found is not None, f"{variant}: {name} did not detect it"


@pytest.mark.parametrize("case", CONTROLS.values(), ids=CONTROLS)
def test_a_control_is_correct_and_fails_no_invariant(case):
    for subject in mutation(case).subjects().values():
        assert correct(case, subject)
        for name in case.invariants:
            assert judge(name, INVARIANTS[name], subject, case.problem) is None
            assert first_finding(name, INVARIANTS[name], subject, "quick") is None

"""Each reported fault: our engine gives the right value, and whoever tells the fault again gives another and is caught."""

from contextlib import suppress

import pytest
import torch

from headwise.catalog import entries
from headwise.conformance.adapters.headwise_attention import OurAttend, OurLayer
from headwise.conformance.invariants.laws import first_finding, judged, laws, speaks
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import CallWay
from headwise.conformance.mutations.mutable_layer import LayerWay
from headwise.conformance.problems.layer_problem import LayerProblem
from tests.conformance.cases import CASES

FAULTS = {name: case for name, case in CASES.items() if not name.startswith("CTRL")}
CONTROLS = {name: case for name, case in CASES.items() if name.startswith("CTRL")}


def lie(case) -> Lie:
    return entries("headwise.conformance.mutations")[case.lie]


def honest(case) -> list:
    """Our engine, by every way that can be asked this."""
    if isinstance(case.problem, LayerProblem):
        return [OurLayer(), LayerWay()]
    return [CallWay()] if case.how.training else [OurAttend(), *(OurAttend(kernel) for kernel in OurAttend().paths), CallWay()]


def right(case, subject) -> bool:
    """Whether the subject gives the right value."""
    if case.right is None:
        return all(judged(name, laws()[name], subject, case.problem) is None for name in case.laws)
    found = case.look(subject.attend(case.problem, case.how)).detach()
    return found.shape == case.right.shape and torch.allclose(found.double(), case.right.double(), rtol=1e-5, atol=case.within, equal_nan=True)


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
            if speaks(laws()[name], subject):
                assert judged(name, laws()[name], subject, case.problem) is None


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_the_fault_gives_another_value_and_is_caught(case):
    ways = lie(case).told
    assert set(case.told) <= set(ways)
    for way in case.told or ways:
        with suppress(RuntimeError, ZeroDivisionError):
            assert case.right is None or not right(case, lie(case).subjects()[way]), way
        for name in case.laws:
            law, liar = laws()[name], lie(case).subjects()[way]
            found = judged(name, law, liar, case.problem) or first_finding(name, law, lie(case).subjects()[way], "quick")
            assert found is not None, f"{way}: {name} did not see it"


@pytest.mark.parametrize("case", CONTROLS.values(), ids=CONTROLS)
def test_what_is_no_fault_is_right_and_accused_by_nobody(case):
    for subject in lie(case).subjects().values():
        assert right(case, subject)
        for name in case.laws:
            assert judged(name, laws()[name], subject, case.problem) is None
            assert first_finding(name, laws()[name], subject, "quick") is None

"""Modules: how their calls are learned, and what is said of those that cannot be called."""

import pytest
import torch
from torch import nn

from headwise.conformance.adapters.attention_call import as_answer
from headwise.conformance.adapters.convention_probe import probe, probe_problem
from headwise.conformance.adapters.projection_weights import find_projections
from headwise.conformance.adapters.resolve import resolve
from headwise.conformance.answer import PLAIN
from headwise.errors import ArgumentError, InvalidReturn, NotSupported
from tests.conformance.check import strangers


class Demanding(strangers.SelfAttention):
    def forward(self, x, temperature):
        return super().forward(x) * temperature


class Odd(strangers.SelfAttention):
    def forward(self, x):
        return {"out": x}


def test_a_module_that_demands_what_nobody_knows(plain):
    said = "Demanding requires the arguments temperature, whose meaning is unknown. Wrap it in a module of x, context and mask that passes them."
    with pytest.raises(ArgumentError, match=said):
        resolve(Demanding())


def test_what_a_module_gives_back_must_have_an_output_first():
    (found, *_) = resolve(Odd())
    got = probe(found.subject, problem_of(found.subject))
    assert isinstance(got, InvalidReturn)
    assert str(got) == "It returned dict, where an output of three axes is expected first. Wrap it in a module that returns one."


def problem_of(subject):
    from headwise.conformance.problems.problem_pool import make_layer_problem

    problem = make_layer_problem(sizes={"d_model": 16, "heads": 4, "groups": 4, "head_dim": 4, "value_dim": 4})
    return problem if subject.level == "layer" else probe_problem(queries=5)


def test_what_a_function_gives_back_must_be_numbers():
    for odd, said in (
        (torch.ones(2, dtype=torch.int64), "a torch.int64 tensor"),
        ((torch.ones(2),) * 3, "a tuple of a torch.float32 tensor"),
        ([], "a list of nothing"),
    ):
        with pytest.raises(InvalidReturn, match=f"It returned {said}.*, where a float tensor or a pair of output and weights is expected"):
            as_answer(odd)


@pytest.mark.parametrize(
    ("module", "problem", "said"),
    [
        (strangers.ByHead, lambda: probe_problem(queries=5), "The module is always called with causal=True."),
        (strangers.SelfAttention, lambda: probe_problem(queries=5, causal=True), "The module has no option causal."),
        (strangers.SelfAttention, lambda: probe_problem(queries=7), "Self-attention has one query for every key."),
        (strangers.SelfAttention, lambda: probe_problem(batch=9, queries=5), "A module that is 16 wide takes 16 tokens in all."),
        (strangers.SelfAttention, lambda: probe_problem(queries=5, head_dim=9, value_dim=9), "The module has 4 heads of width 4."),
        (
            strangers.SelfAttention,
            lambda: probe_problem(queries=5).replace(query=torch.full((2, 2, 5, 4), torch.nan)),
            "The projections of a module spread numbers that are not finite.",
        ),
    ],
)
def test_what_a_module_has_no_room_for_is_refused(module, problem, said):
    call = next(found.subject for found in resolve(module()) if found.subject.level == "call")
    with pytest.raises(NotSupported, match=said):
        call.attend(problem(), PLAIN)


def test_maps_are_not_changed_by_a_check():
    module = strangers.SelfAttention()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for found in resolve(module):
        probe(found.subject, problem_of(found.subject))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert isinstance(module, nn.Module) and find_projections(module).sizes.d_model == 16

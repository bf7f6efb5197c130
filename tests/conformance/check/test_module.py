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
    said = "subject must demand no input beside x, context and mask, got Demanding which demands temperature. Wrap it in a module that gives them."
    with pytest.raises(ArgumentError, match=said):
        resolve(Demanding())


def test_what_a_module_gives_back_must_have_an_output_first():
    (found, *_) = resolve(Odd())
    got = probe(found.subject, problem_of(found.subject))
    assert isinstance(got, InvalidReturn)
    assert str(got) == "a module must give back an output of 3 axes first, got dict. Wrap it in a module that does."


def problem_of(subject):
    from headwise.conformance.problems.problem_pool import make_layer_problem

    problem = make_layer_problem(sizes={"d_model": 16, "heads": 4, "groups": 4, "head_dim": 4, "value_dim": 4})
    return problem if subject.level == "layer" else probe_problem(queries=5)


def test_what_a_function_gives_back_must_be_numbers():
    for odd, said in (
        (torch.ones(2, dtype=torch.int64), "a torch.int64 tensor"),
        ((torch.ones(2),) * 3, "tuple of a torch.float32 tensor"),
        ([], "list of nothing"),
    ):
        with pytest.raises(InvalidReturn, match=f"a subject must give back a float tensor, or a pair of output and weights, got {said}"):
            as_answer(odd)


@pytest.mark.parametrize(
    ("module", "problem", "said"),
    [
        (strangers.ByHead, lambda: probe_problem(queries=5), "the module is always causal."),
        (strangers.SelfAttention, lambda: probe_problem(queries=5, causal=True), "the module knows no causal."),
        (strangers.SelfAttention, lambda: probe_problem(queries=7), "self-attention has a key for every query, and no others before them."),
        (strangers.SelfAttention, lambda: probe_problem(batch=9, queries=5), "a module that is 16 wide takes 16 tokens in all."),
        (strangers.SelfAttention, lambda: probe_problem(queries=5, width=9, value_width=9), "the module has 4 heads of width 4, 4 of them for keys."),
        (
            strangers.SelfAttention,
            lambda: probe_problem(queries=5).replace(query=torch.full((2, 2, 5, 4), torch.nan)),
            "what is not finite is spread by the maps of a module.",
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
    assert isinstance(module, nn.Module) and find_projections(module).sizes.model == 16

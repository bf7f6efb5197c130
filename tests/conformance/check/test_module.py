"""Modules: how their calls are learned, and what is said of those that cannot be called."""

import pytest
import torch
from torch import nn

from headwise.conformance.adapters.attention_call import ReturnedOdd, returned
from headwise.conformance.adapters.convention_probe import asked, plain
from headwise.conformance.adapters.find import find
from headwise.conformance.adapters.projection_weights import find_maps
from headwise.conformance.adapters.subject import Refused
from headwise.conformance.problems.answer import PLAINLY
from headwise.errors import ArgumentError
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
        find(Demanding())


def test_what_a_module_gives_back_must_have_an_output_first():
    (found, *_) = find(Odd())
    got = asked(found.subject, problem_of(found.subject))
    assert isinstance(got, ReturnedOdd)
    assert str(got) == "a module must give back an output of 3 axes first, got dict. Wrap it in a module that does."


def problem_of(subject):
    from headwise.conformance.problems.problem_pool import layer

    problem = layer(sizes={"model": 16, "heads": 4, "groups": 4, "width": 4, "wide": 4})
    return problem if subject.level == "layer" else plain(queries=5)


def test_what_a_function_gives_back_must_be_numbers():
    for odd, said in (
        (torch.ones(2, dtype=torch.int64), "a torch.int64 tensor"),
        ((torch.ones(2),) * 3, "tuple of a torch.float32 tensor"),
        ([], "list of nothing"),
    ):
        with pytest.raises(ReturnedOdd, match=f"a subject must give back a float tensor, or a pair of output and weights, got {said}"):
            returned(odd)


@pytest.mark.parametrize(
    ("module", "problem", "said"),
    [
        (strangers.ByHead, lambda: plain(queries=5), "the module is always causal."),
        (strangers.SelfAttention, lambda: plain(queries=5, causal=True), "the module knows no causal."),
        (strangers.SelfAttention, lambda: plain(queries=7), "self-attention has a key for every query, and no others before them."),
        (strangers.SelfAttention, lambda: plain(batch=9, queries=5), "a module that is 16 wide takes 16 tokens in all."),
        (strangers.SelfAttention, lambda: plain(queries=5, width=9, value_width=9), "the module has 4 heads of width 4, 4 of them for keys."),
        (
            strangers.SelfAttention,
            lambda: plain(queries=5).having(query=torch.full((2, 2, 5, 4), torch.nan)),
            "what is not finite is spread by the maps of a module.",
        ),
    ],
)
def test_what_a_module_has_no_room_for_is_refused(module, problem, said):
    call = next(found.subject for found in find(module()) if found.subject.level == "call")
    with pytest.raises(Refused, match=said):
        call.attend(problem(), PLAINLY)


def test_maps_are_not_changed_by_a_check():
    module = strangers.SelfAttention()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for found in find(module):
        asked(found.subject, problem_of(found.subject))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert isinstance(module, nn.Module) and find_maps(module).sizes.model == 16

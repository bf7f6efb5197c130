"""The attention functions that transformers has registered, called as its models call them."""

from typing import Any

import torch
from torch import nn

from headwise.axes import Tensor
from headwise.proof.answer import How
from headwise.proof.conventions import Conventions
from headwise.proof.oracle import seen
from headwise.proof.problem import Problem
from headwise.proof.subject import ABILITIES
from headwise.subjects.call import CallSubject

OPTIONS = frozenset({"causal", "query_offset", "window", "mask", "bias", "scale", "dropout"})


def interface(name: str, conventions: Conventions, extra: frozenset[str] = frozenset(), lacks: frozenset[str] = frozenset()) -> CallSubject:
    """One registered function. All that hides is in the mask that it is given, as transformers makes it for this function.

    Args:
        extra: further options that it takes.
        lacks: abilities that it does not have.
    """

    def compute(problem: Problem, how: How) -> tuple[Tensor, Tensor | None]:
        output, weights = function(name)(
            layer(problem, how), problem.query, problem.key, problem.value, plane(problem, conventions, name), **keywords(problem, how)
        )
        return output.transpose(1, 2), weights if how.weights else None

    honours = (OPTIONS | extra | frozenset(ABILITIES)) - {"lse", "empty"} - lacks
    return CallSubject(f"transformers_{name}", compute, honours, conventions)


def function(name: str) -> Any:
    """The function of this name; "eager" is each model's own."""
    if name == "eager":
        from transformers.models.llama.modeling_llama import eager_attention_forward

        return eager_attention_forward
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    return ALL_ATTENTION_FUNCTIONS[name]


def layer(problem: Problem, how: How) -> nn.Module:
    """What the functions look at of the layer that calls them."""
    made = nn.Module().train(how.training)
    made.num_key_value_groups = problem.query.shape[1] // max(problem.key.shape[1], 1)
    made.is_causal = False  # the mask says it all
    return made


def keywords(problem: Problem, how: How) -> dict[str, Any]:
    """What models pass beside the mask."""
    said: dict[str, Any] = {"scaling": problem.query.shape[3] ** -0.5 if problem.scale is None else problem.scale}
    said["dropout"] = problem.dropout if how.training else 0.0
    if problem.softcap is not None:
        said["softcap"] = problem.softcap
    if problem.sink is not None:
        said["s_aux"] = problem.sink
    return said


def plane(problem: Problem, conventions: Conventions, name: str) -> Tensor | None:
    """A bool mask for those that take one; the dtype's smallest number where hidden for eager; a bias is added."""
    visible = torch.from_numpy(seen(problem, conventions)).to(problem.query.device)
    if bool(visible.all()) and problem.bias is None:
        return None
    if problem.bias is None and name != "eager":
        return visible
    bias = problem.query.new_zeros(()) if problem.bias is None else problem.bias
    return torch.where(visible, bias, torch.finfo(problem.query.dtype).min if name == "eager" else -torch.inf)

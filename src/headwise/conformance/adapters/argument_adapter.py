"""A problem told to a function in its own words: masks turned round, windows counted its way, axes in its order."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from headwise.axes import Int, Tensor
from headwise.conformance.adapters.attention_call import Spelling, returned
from headwise.conformance.adapters.signature import LENGTHS, Binding
from headwise.conformance.adapters.subject import Refused
from headwise.conformance.problems.answer import Answer, How
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.problem import Problem

AXES: Mapping[str, str] = MappingProxyType({"B H T D": "", "B T H D": ".transpose(1, 2)"})


@dataclass(frozen=True, eq=False)
class Dialect:
    """How one function is spoken to.

    Attributes:
        binding: its keywords.
        conventions: what it means by them.
        bias_in_mask: a bias goes where the mask goes.
        bool_masks: it takes masks of bool; otherwise 0 and -inf are added.
    """

    binding: Binding
    conventions: Conventions
    bias_in_mask: bool = False
    bool_masks: bool = True

    def compute(self, problem: Problem, how: How) -> Answer:
        """Call the function."""
        if self.conventions.layout == "packed":
            return self._packed(problem, how)
        told = self.reworded(problem)
        tensors = [turned(x, self.conventions.layout) for x in (told.query, told.key, told.value)]
        found = returned(self.binding.function(*tensors, **self.keywords(told, how)))
        return Answer(turned(found.output, self.conventions.layout), found.weights, found.lse)

    def spelled(self, problem: Problem, how: How) -> Spelling:
        """The call as Python."""
        module, _, attribute = self.binding.name.partition(":")
        told = self.reworded(problem)
        words = self.keywords(told, how)
        tensors = {name: getattr(told, name) for name in ("query", "key", "value")} | {name: x for name, x in words.items() if isinstance(x, Tensor)}
        turn = AXES[self.conventions.layout]
        said = [f"{name}{turn}" for name in ("query", "key", "value")]
        said += [f"{name}={name if isinstance(value, Tensor) else repr(value)}" for name, value in words.items()]
        return Spelling((f"from {module} import {attribute.partition('.')[0]}",), tensors, f"{attribute}({', '.join(said)}){turn}")

    def reworded(self, problem: Any) -> Any:
        """Masks, biases and windows as the function means them."""
        changes: dict[str, Any] = {}
        mask, bias, window = problem.mask, problem.bias, problem.window
        if mask is not None and (not self.bool_masks or (self.bias_in_mask and bias is not None)):
            dtype = next(iter(problem.floats().values())).dtype
            planes = torch.broadcast_tensors(torch.zeros((), dtype=dtype, device=mask.device) if bias is None else bias, ~mask)
            changes["bias"], changes["mask"] = planes[0].masked_fill(planes[1], -torch.inf), None
        elif mask is not None and self.conventions.mask_polarity == "hide":
            changes["mask"] = ~mask
        if isinstance(window, int) and not self.conventions.window_counts_own:
            changes["window"] = window - 1
        return problem.having(**changes) if changes else problem

    def keywords(self, told: Any, how: How) -> dict[str, Any]:
        """The keyword arguments of a problem that was reworded."""
        words, binding = dict(self.binding.words), self.binding
        if self.bias_in_mask or not self.bool_masks:
            words["bias"] = words["mask"]
        said = {words[name]: value for name, value in told.options.items() if name in words and name != "dropout"}
        said |= {word: getattr(told, name) for name, word in words.items() if word in binding.required and word not in said}
        if "dropout" in words and ((how.training and told.dropout) or words["dropout"] in binding.required):
            said[words["dropout"]] = told.dropout if how.training else 0.0
        if binding.asks_weights and (how.weights or binding.asks_weights in binding.required):
            said[binding.asks_weights] = how.weights
        if "training" in binding.switches and how.training:
            said["training"] = True
        if "enable_gqa" in binding.switches and told.query.shape[1] != told.key.shape[1]:
            said["enable_gqa"] = True
        return said

    def _packed(self, problem: Problem, how: How) -> Answer:
        """All rows of the batch behind one another, without padding: query [B·T, H, D], keys of so many tokens each."""
        batch, _, queries, _ = problem.query.shape
        lengths = self._key_lengths(problem)
        query = problem.query.transpose(1, 2).flatten(0, 1)
        key, value = (torch.cat([row[:, :n].transpose(0, 1) for row, n in zip(x, lengths.tolist(), strict=True)]) for x in (problem.key, problem.value))
        told = problem.having(mask=None)
        said = self.keywords(self.reworded(told), how)
        said |= {"cu_seqlens_q": bounds(torch.full((batch,), queries)), "cu_seqlens_k": bounds(lengths)}
        longest = {"max_seqlen_q": queries, "max_seqlen_k": int(lengths.max()) if batch else 0}
        said |= {name: length for name, length in longest.items() if name in self.binding.switches}
        found = returned(self.binding.function(query, key, value, **said))
        return Answer(found.output.unflatten(0, (batch, queries)).transpose(1, 2), None, None)

    def _key_lengths(self, problem: Problem) -> Int[Tensor, " B"]:
        batch, _, _, keys = problem.shape
        if problem.mask is None:
            return torch.full((batch,), keys)
        whole = problem.mask.broadcast_to(problem.shape)
        lengths = whole[:, 0, 0].sum(-1) if whole.numel() else torch.zeros(batch, dtype=torch.int64)
        if not (whole == (torch.arange(keys) < lengths[:, None])[:, None, None]).all():
            raise Refused("packed texts know no mask but their lengths.")
        if (problem.causal or problem.window is not None) and self.conventions.corner == "bottom-right" and bool((lengths != keys).any()):
            raise Refused("packed texts count positions from their own ends.")
        return lengths


def turned(x: Tensor, layout: str) -> Tensor:
    """Heads and tokens in the order of the function, or back."""
    return x.transpose(1, 2) if layout == "B T H D" and x.dim() == 4 else x


def bounds(lengths: Int[Tensor, " B"]) -> Int[Tensor, " B1"]:
    """Where each text begins, and the end."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32)


def is_packed(binding: Binding) -> bool:
    """Whether the function takes texts behind one another."""
    return binding.switches.issuperset(LENGTHS)

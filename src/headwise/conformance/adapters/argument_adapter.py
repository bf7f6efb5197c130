"""A problem translated into the arguments of one function: its keyword names, mask polarity, window convention and order of axes."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import torch

from headwise.axes import Int, Tensor
from headwise.conformance.adapters.attention_call import SourceCall, as_answer
from headwise.conformance.adapters.signature import PACKED_LENGTHS, Binding
from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported

TRANSPOSE: Mapping[str, str] = MappingProxyType({"B H T D": "", "B T H D": ".transpose(1, 2)"})
P = TypeVar("P", Problem, LayerProblem)


@dataclass(frozen=True, eq=False)
class ArgumentAdapter:
    """How one function is called.

    Attributes:
        binding: its keyword names.
        conventions: what its arguments mean.
        bias_in_mask: a bias is passed as the mask.
        bool_masks: it takes boolean masks; otherwise masks are passed as 0 and -inf.
    """

    binding: Binding
    conventions: Conventions
    bias_in_mask: bool = False
    bool_masks: bool = True

    def compute(self, problem: Problem, mode: CallMode) -> Answer:
        """Call the function."""
        if self.conventions.layout == "packed":
            return self._packed(problem, mode)
        problem = self.translated(problem)
        tensors = [with_layout(x, self.conventions.layout) for x in (problem.query, problem.key, problem.value)]
        found = as_answer(self.binding.function(*tensors, **self.keywords(problem, mode)))
        return Answer(with_layout(found.output, self.conventions.layout), found.weights, found.lse)

    def as_source(self, problem: Problem, mode: CallMode) -> SourceCall:
        """The call as Python source."""
        module, _, attribute = self.binding.name.partition(":")
        problem = self.translated(problem)
        keywords = self.keywords(problem, mode)
        tensors = {name: getattr(problem, name) for name in ("query", "key", "value")} | {name: x for name, x in keywords.items() if isinstance(x, Tensor)}
        transpose = TRANSPOSE[self.conventions.layout]
        arguments = [f"{name}{transpose}" for name in ("query", "key", "value")]
        arguments += [f"{name}={name if isinstance(value, Tensor) else repr(value)}" for name, value in keywords.items()]
        return SourceCall((f"from {module} import {attribute.partition('.')[0]}",), tensors, f"{attribute}({', '.join(arguments)}){transpose}")

    def translated(self, problem: P) -> P:
        """The problem with its mask, bias and window as the function means them."""
        changes: dict[str, Any] = {}
        mask, bias, window = problem.mask, problem.bias, problem.window
        if mask is not None and (not self.bool_masks or (self.bias_in_mask and bias is not None)):
            planes = torch.broadcast_tensors(torch.zeros((), dtype=problem.dtype, device=mask.device) if bias is None else bias, ~mask)
            changes["bias"], changes["mask"] = planes[0].masked_fill(planes[1], -torch.inf), None
        elif mask is not None and self.conventions.mask_polarity == "hide":
            changes["mask"] = ~mask
        if isinstance(window, int) and not self.conventions.window_counts_own:
            changes["window"] = window - 1
        return problem.replace(**changes) if changes else problem

    def keywords(self, problem: AnyProblem, mode: CallMode) -> dict[str, Any]:
        """The keyword arguments of a translated problem."""
        names, binding = dict(self.binding.option_names), self.binding
        if self.bias_in_mask or not self.bool_masks:
            names["bias"] = names["mask"]
        found = {names[option]: value for option, value in problem.options.items() if option in names and option != "dropout"}
        found |= {name: getattr(problem, option) for option, name in names.items() if name in binding.required and name not in found}
        if "dropout" in names and ((mode.training and problem.dropout) or names["dropout"] in binding.required):
            found[names["dropout"]] = problem.dropout if mode.training else 0.0
        if binding.weights_flag and (mode.weights or binding.weights_flag in binding.required):
            found[binding.weights_flag] = mode.weights
        if "training" in binding.extra_keywords and mode.training:
            found["training"] = True
        if "enable_gqa" in binding.extra_keywords and isinstance(problem, Problem) and problem.query.shape[1] != problem.key.shape[1]:
            found["enable_gqa"] = True
        return found

    def _packed(self, problem: Problem, mode: CallMode) -> Answer:
        """The sequences of the batch concatenated without padding: query [B·T, H, D], keys of different lengths each."""
        batch, _, queries, _ = problem.query.shape
        lengths = self._key_lengths(problem)
        query = problem.query.transpose(1, 2).flatten(0, 1)
        key, value = (torch.cat([row[:, :n].transpose(0, 1) for row, n in zip(x, lengths.tolist(), strict=True)]) for x in (problem.key, problem.value))
        keywords = self.keywords(self.translated(problem.replace(mask=None)), mode)
        keywords |= {"cu_seqlens_q": cumulative_lengths(torch.full((batch,), queries)), "cu_seqlens_k": cumulative_lengths(lengths)}
        longest = {"max_seqlen_q": queries, "max_seqlen_k": int(lengths.max()) if batch else 0}
        keywords |= {name: length for name, length in longest.items() if name in self.binding.extra_keywords}
        found = as_answer(self.binding.function(query, key, value, **keywords))
        return Answer(found.output.unflatten(0, (batch, queries)).transpose(1, 2), None, None)

    def _key_lengths(self, problem: Problem) -> Int[Tensor, " B"]:
        batch, _, _, keys = problem.shape
        if problem.mask is None:
            return torch.full((batch,), keys)
        mask = problem.mask.broadcast_to(problem.shape)
        lengths = mask[:, 0, 0].sum(-1) if mask.numel() else torch.zeros(batch, dtype=torch.int64)
        if not (mask == (torch.arange(keys) < lengths[:, None])[:, None, None]).all():
            raise NotSupported("Packed sequences have no mask beyond their lengths.")
        if (problem.causal or problem.window is not None) and self.conventions.corner == "bottom-right" and bool((lengths != keys).any()):
            raise NotSupported("Packed sequences align the causal mask with the end of each sequence.")
        return lengths


def with_layout(x: Tensor, layout: str) -> Tensor:
    """The tensor in the function's order of heads and tokens, or back in headwise's."""
    return x.transpose(1, 2) if layout == "B T H D" and x.dim() == 4 else x


def cumulative_lengths(lengths: Int[Tensor, " B"]) -> Int[Tensor, " B1"]:
    """The start of each sequence, and the end of the last."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32)


def is_packed(binding: Binding) -> bool:
    """Whether the function takes packed sequences with cumulative lengths."""
    return binding.extra_keywords.issuperset(PACKED_LENGTHS)

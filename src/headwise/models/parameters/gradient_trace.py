"""A pass in which gradients lead from each head's query, key and value back to the projections that they come from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from headwise.axes import Bool, Float, Output, Tensor
from headwise.models.capture.attention_request import AttentionRequest
from headwise.models.capture.hf_attention import recording
from headwise.models.capture.recorder import CaptureSpec, LayoutChanged, Recorder
from headwise.models.layout import AttentionSite, Layout, is_linear

TOLERANCE = 0.02  # of the size of what is added up: rounding to bfloat16 gives 0.001, a norm 0.5 and more


@dataclass(frozen=True, eq=False)
class LeafTensor:
    """Random numbers in place of a Linear's output, or of a parameter: where gradients end.

    Attributes:
        axis: of `tensor`, along which its rows lie.
        weight: the parameter whose rows these are, and along which of its axes; empty for a bias alone.
        bias: the parameter that has the same rows, if any.
    """

    tensor: Tensor
    axis: int
    weight: tuple[str, int]
    bias: str | None


@dataclass(frozen=True, eq=False)
class CapturedCall:
    """One call. Of one that the model computes itself the weights alone may be known, [N, T, S], and how many heads they are of."""

    query: Tensor | None
    key: Tensor | None
    value: Tensor
    weights: Tensor | None
    heads: int | None


class GradientTracer(Recorder):
    """Runs a clone once, with random numbers for the outputs of its Linears, and keeps the tensors of every call."""

    def __init__(self, clone: nn.Module, layout: Layout, inputs: Mapping[str, Any]) -> None:
        super().__init__(clone, layout, inputs, CaptureSpec((), lambda record: None))
        self.leaves: list[LeafTensor] = []
        self.captured: dict[int, CapturedCall] = {}
        self.generator = torch.Generator().manual_seed(0)

    def run(self) -> Any:
        for name, module in self.clone.named_modules():
            if is_linear(module):
                module.register_forward_hook(self._product(name))
            elif isinstance(module, nn.MultiheadAttention):
                self._parameters(name, module)
        with recording(self), torch.inference_mode(False), torch.enable_grad(), self._detector_mode():
            self.clone(**self.inputs)
        if self.count != len(self.layout.sites):
            raise LayoutChanged

    def attend(self, module: nn.Module, request: AttentionRequest) -> Output:
        site = self._site()
        if site is None or site.module != self.names[id(module)]:
            raise LayoutChanged
        self._catch(CapturedCall(request.query, request.key, request.value, None, None))
        with self._own_work(), torch.no_grad():
            return self.compute(request).output

    def capture_product(self, weights: Tensor, value: Tensor, product: Tensor, shape: tuple[int, ...]) -> Tensor | None:
        site = self._site()
        if site is None or site.heads is None or weights.shape[0] % site.heads:
            return None
        self._catch(CapturedCall(None, None, value, weights, site.heads))
        return product

    def capture_fused(self, named: dict[str, Any], product: Tensor) -> Tensor | None:
        site = self._site()
        if site is None or site.heads is None:
            return None
        self._catch(CapturedCall(named["query"], named["key"], named["value"], None, None))
        return product

    def _site(self) -> AttentionSite | None:
        return self.layout.sites[self.count] if self.count < len(self.layout.sites) else None

    def _catch(self, captured: CapturedCall) -> None:
        self.captured[self.count] = captured
        self.count += 1

    def _product(self, name: str) -> Callable[..., Tensor]:
        def hook(module: nn.Module, args: Any, result: Tensor) -> Tensor:
            leaf = torch.randn(result.shape, generator=self.generator).to(result).float().requires_grad_()  # rounded as the model's own numbers are
            axis = 1 if isinstance(module, Conv1D) else 0
            bias = f"{name}.bias" if isinstance(module.bias, Tensor) else None
            self.leaves.append(LeafTensor(leaf, leaf.dim() - 1, (f"{name}.weight", axis), bias))
            return leaf.to(result.dtype).clone()  # the model may write into it

        return hook

    def _parameters(self, name: str, module: nn.MultiheadAttention) -> None:
        """torch's own module multiplies with its parameters itself: gradients end at random numbers in their place."""
        for key, parameter in list(module._parameters.items()):
            if parameter is not None and key.startswith(("in_proj", "q_proj", "k_proj", "v_proj")):
                leaf = nn.Parameter(torch.randn(parameter.shape, generator=self.generator).to(parameter))
                module._parameters[key] = leaf
                is_bias = key.endswith("bias")
                self.leaves.append(LeafTensor(leaf, 0, ("" if is_bias else f"{name}.{key}", 0), f"{name}.{key}" if is_bias else None))


@dataclass(frozen=True, eq=False)
class HeadDependence:
    """The leaves that one head's query, key or value depends on.

    Attributes:
        rows: by leaf: True for a row that it depends on.
        slopes: by leaf: row by row, gradient times leaf.
        total: what all slopes add up to where it is linear in all these rows.
        straight: whether it is linear in its rows; None where `total` decides.
        size: root mean square of its numbers; NaN where they are unknown.
    """

    rows: Mapping[int, Bool[Tensor, " C"]]
    slopes: Mapping[int, Float[Tensor, " C"]]
    total: float
    straight: bool | None = None
    size: float = float("nan")


@dataclass(frozen=True, eq=False)
class TracedHeads:
    """The heads of one side, or why they are not known."""

    heads: tuple[HeadDependence, ...] = ()
    refusal: str | None = None

    def each(self, copies: int) -> "TracedHeads":
        """One of each so many."""
        return replace(self, heads=self.heads[::copies])


def trace_call(captured: CapturedCall, leaves: Sequence[LeafTensor]) -> tuple[TracedHeads, TracedHeads, TracedHeads]:
    """Query, key and value of one call; keys and values that were repeated for the query heads count once."""
    if captured.weights is None or captured.heads is None:
        found = [_followed(x, leaves) for x in (captured.query, captured.key, captured.value)]
        return found[0], found[1].each(_copies(captured.key)), found[2].each(_copies(captured.value))
    value = captured.value.unflatten(0, (-1, captured.heads))
    copies = _copies(value)
    queries, keys = _from_weights(captured.weights.unflatten(0, (-1, captured.heads)), leaves)
    return queries, keys.each(copies), _followed(value, leaves).each(copies)


def _copies(x: Float[Tensor, "B H S D"] | None) -> int:
    """How many heads in turn are the same head, repeated."""
    if x is None:
        return 1
    fits = [n for n in range(2, x.shape[1] + 1) if x.shape[1] % n == 0 and bool((x.unflatten(1, (-1, n)) == x[:, ::n, None]).all())]
    return max(fits, default=1)


def _followed(x: Float[Tensor, "B H T D"] | None, leaves: Sequence[LeafTensor]) -> TracedHeads:
    """The gradient to every leaf of each head's product with numbers that are random and correlated with it."""
    if x is None or not x.requires_grad:
        return TracedHeads(refusal="no Linear is seen to give it")
    noise = _noise(x) + x.detach() / x.detach().double().square().mean().sqrt().clamp(min=1e-30).to(x)
    near, heads = list(range(len(leaves))), []
    for head in range(x.shape[1]):
        total = (x[:, head].double() * noise[:, head].double()).sum()
        gradients = _gradients(total, near, leaves)
        near = list(gradients)  # all heads of a call end at the same few leaves
        rows = {i: _rows(gradient != 0, leaves[i].axis) for i, gradient in gradients.items()}
        rows = {i: marks for i, marks in rows.items() if bool(marks.any())}
        heads.append(HeadDependence(rows, {i: _along(gradients[i], leaves[i]) for i in rows}, float(total.detach()), size=_size(x[:, head])))
    return TracedHeads(tuple(heads))


def _from_weights(weights: Float[Tensor, "B H T S"], leaves: Sequence[LeafTensor]) -> tuple[TracedHeads, TracedHeads]:
    """Queries and keys, separated by token: the last row of weights depends on the last token's query, and on the keys of all."""
    queries = weights.shape[2]
    if not weights.requires_grad or weights.shape[0] != 1 or queries != weights.shape[3] or queries < 2:
        refused = TracedHeads(refusal="the model computes this attention itself, and no Linear is seen to give it")
        return refused, refused
    near = [i for i, leaf in enumerate(leaves) if leaf.tensor[..., 0].numel() == queries]
    found: list[HeadDependence] = []
    keys: list[HeadDependence] = []
    for head in range(weights.shape[1]):
        scores = weights[0, head, -1].log()
        noise = _noise(scores) / 2 + scores.detach() / scores.detach().std().clamp(min=1e-30)
        total = (scores * (noise - noise.mean())).sum()  # log w = score - log Σ exp, of which the latter cancels
        gradients = _gradients(total, near, leaves, twice=True)
        near = list(gradients)
        by_token = {i: gradient.flatten(0, -2) != 0 for i, gradient in gradients.items()}
        earlier = {i: marks[:-1].any(0).cpu() for i, marks in by_token.items()}
        own = {i: marks[-1].cpu() & ~earlier[i] for i, marks in by_token.items()}
        keys.append(HeadDependence({i: marks for i, marks in earlier.items() if bool(marks.any())}, {}, 0.0, _is_straight(gradients, earlier, leaves)))
        found.append(HeadDependence({i: marks for i, marks in own.items() if bool(marks.any())}, {}, 0.0, _is_straight(gradients, own, leaves)))
    return TracedHeads(tuple(found)), TracedHeads(tuple(keys))


def _is_straight(gradients: Mapping[int, Tensor], own: Mapping[int, Tensor], leaves: Sequence[LeafTensor]) -> bool:
    """Whether scores grow in proportion to these rows: along them there is a slope, and no curve."""
    parts = {i: leaves[i].tensor.detach() * own[i].to(gradient) for i, gradient in gradients.items()}
    slope = sum((gradients[i] * parts[i]).sum() for i in gradients)
    if not isinstance(slope, Tensor) or not slope.requires_grad:
        return False
    again = torch.autograd.grad(slope, [leaves[i].tensor for i in parts], retain_graph=True, allow_unused=True)
    curve = sum(float((x * part).sum()) for x, part in zip(again, parts.values(), strict=True) if x is not None)
    size = sum(float((gradients[i].detach() * parts[i]).abs().sum()) for i in parts)
    return abs(curve) <= TOLERANCE * size and float(slope.detach().abs()) > TOLERANCE * size


def _gradients(total: Tensor, near: Sequence[int], leaves: Sequence[LeafTensor], twice: bool = False) -> dict[int, Tensor]:
    found = torch.autograd.grad(total, [leaves[i].tensor for i in near], retain_graph=True, create_graph=twice, allow_unused=True)
    return {i: gradient for i, gradient in zip(near, found, strict=True) if gradient is not None}


def _noise(x: Tensor) -> Tensor:
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).to(x)


def _rows(marks: Tensor, axis: int) -> Bool[Tensor, " C"]:
    return marks.movedim(axis, 0).reshape(marks.shape[axis], -1).any(1).cpu()


def _along(gradient: Tensor, leaf: LeafTensor) -> Float[Tensor, " C"]:
    product = gradient.double() * leaf.tensor.detach().double()
    return product.movedim(leaf.axis, 0).reshape(product.shape[leaf.axis], -1).sum(1).cpu()


def _size(x: Tensor) -> float:
    return float(x.detach().double().square().mean().sqrt())

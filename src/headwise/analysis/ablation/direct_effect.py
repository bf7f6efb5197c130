"""What a head's write does to the logit of a token with nothing in between: its direct effect.

The last norm before the map to the vocabulary divides by a size that all parts of the residual stream have together. With the
size that it had in this pass it is linear, so that the direct effects of all parts of the stream, and the map's own bias, add
up to the logit exactly. As an answer to "what if this head had said nothing" it is a linearisation: the size would change too.

    logit = Σ_parts part · scale ⊙ γ · W_U + (β · W_U + b)        scale = 1 / size, the mean taken off first for a LayerNorm

References: Elhage et al. 2021; nostalgebraist 2020, "the logit lens".
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import einsum, nn

from headwise.analysis.ablation.eval_text import EvalText
from headwise.analysis.ablation.partial_forward import PartialForward
from headwise.axes import Float, Int, Tensor
from headwise.errors import WritesRefused
from headwise.models.layout import w_o_by_head
from headwise.models.runs.places import Place

SLACK = 1e-3  # of the largest number: what float32 may lose on the way through a block


@dataclass(frozen=True, eq=False)
class Readout:
    """How the residual stream of a pass becomes logits: `row[t] · (stream[t] − mean) + rest[t]` for one token of the vocabulary at each place.

    Attributes:
        stream: what the last norm read.
        scale: what it multiplied by at each token.
        gain: its weights, γ.
        centred: it takes the mean off first.
    """

    stream: Float[Tensor, "B T M"]
    scale: Float[Tensor, "B T 1"]
    gain: Float[Tensor, " M"]
    shift: Float[Tensor, " M"]
    centred: bool
    unembedding: Float[Tensor, "V M"]
    bias: Float[Tensor, " V"] | None

    def rows(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """The direction of the stream that raises the logit of these tokens."""
        found = self.unembedding[tokens] * self.gain * self.scale
        return found - found.mean(-1, keepdim=True) if self.centred else found

    def rest(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """What is not of the stream."""
        found = einsum("btm,m->bt", self.unembedding[tokens], self.shift)
        return found if self.bias is None else found + self.bias[tokens]


def readout(forward: PartialForward) -> Readout:
    """The last norm and the map to the vocabulary of a pass.

    Raises:
        WritesRefused: something else stands at the end of the model, or heads' writes do not reach the stream as they are.
    """
    if not forward.is_chunked or forward.head is None:
        raise WritesRefused("direct effects on logits must be those of a map to the vocabulary that comes last, got another end (a cap on logits?).")
    norm, read, given = _last_norm(forward)
    _check_stream(forward)
    x = read.float()
    scale, gain, shift, centred = _taken_apart(norm, x, given.float())
    bias = forward.head.bias
    return Readout(x, scale, gain, shift, centred, forward.head.weight.detach().float(), bias.detach().float() if isinstance(bias, Tensor) else None)


def direct_effects(passage: EvalText, read: Readout, place: Place, tokens: Int[Tensor, "B T"], said: Tensor | None = None) -> Float[Tensor, "B T H"]:
    """What each head of a layer adds to the logit of a token at each place.

    Args:
        tokens: of the vocabulary, one for each place.
        said: what W_O read; of the pass when absent.
    """
    module = passage.forward.session.module(passage.forward.session.layout.sites[place.index].output.module)
    words = passage.forward.cache.wo_inputs[place.index] if said is None else said
    return einsum("bthe,hem,btm->bth", words.float(), w_o_by_head(module, place.heads).float(), read.rows(tokens))


def _last_norm(forward: PartialForward) -> tuple[nn.Module, Tensor, Tensor]:
    """The module whose output the map to the vocabulary reads, what it read, and what it gave."""
    seen: list[tuple[nn.Module, Tensor, Tensor]] = []

    def hook(module: nn.Module, args: Any, result: Any) -> None:
        if isinstance(result, Tensor) and args and isinstance(args[0], Tensor) and args[0].shape == result.shape:
            seen.append((module, args[0].clone(), result))

    last = max(forward.cache.resume_points)
    handles = [module.register_forward_hook(hook) for module in forward.twin.modules() if not list(module.children()) and module is not forward.head]
    try:
        outputs = forward.outputs([last], lambda call, read: read, 1)
    finally:
        for handle in handles:
            handle.remove()
    final = outputs["logits"]
    for module, read, result in reversed(seen):
        if result.shape == final.shape and torch.equal(result, final):
            return module, read, result
    raise WritesRefused("direct effects on logits must be read through a norm that comes last, got none before the map to the vocabulary.")


def _taken_apart(norm: nn.Module, x: Float[Tensor, "B T M"], given: Float[Tensor, "B T M"]) -> tuple[Tensor, Tensor, Tensor, bool]:
    """Scale, gain, shift of the norm, and whether it takes the mean off: whichever kind gives what this one gave.

    Raises:
        WritesRefused: it is neither a LayerNorm nor an RMSNorm.
    """
    eps = next((float(getattr(norm, name)) for name in ("variance_epsilon", "eps", "epsilon") if getattr(norm, name, None) is not None), 1e-6)
    weight: Tensor = norm.weight.detach().float() if isinstance(getattr(norm, "weight", None), Tensor) else x.new_ones(x.shape[-1])  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue, reportAssignmentType]
    shift = norm.bias.detach().float() if isinstance(getattr(norm, "bias", None), Tensor) else torch.zeros_like(weight)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    for centred in (False, True):
        y = x - x.mean(-1, keepdim=True) if centred else x
        scale = (y.square().mean(-1, keepdim=True) + eps).rsqrt()
        for gain in (weight, 1 + weight):
            if bool(((y * scale * gain + shift - given).abs() <= SLACK * given.abs().max()).all()):
                return scale, gain, shift, centred
    raise WritesRefused(f"direct effects on logits must be read through a LayerNorm or RMSNorm, got {type(norm).__name__}.")


def _check_stream(forward: PartialForward) -> None:
    """Whether blocks add to a stream what W_O gives, unchanged: what else a block adds must be what some other module of it gave.

    Raises:
        WritesRefused: they do not: a norm behind W_O, or a factor.
    """
    layout, cache = forward.session.layout, forward.cache
    for index, step in enumerate(cache.blocks):
        calls = [call for call, (where, _) in cache.resume_points.items() if where == index]
        result = step.output[0] if isinstance(step.output, tuple) else step.output
        if not calls or step.input is None or not isinstance(result, Tensor) or result.shape != step.input.shape:
            raise WritesRefused(f"direct effects on logits must be of blocks that add to one stream, got {step.block}, which does not.")
        written = sum(_given_by(forward, layout.sites[call].output.module, call) for call in calls)
        rest = (result - step.input).float() - written
        if not any(_close(rest, other) for other in _others(forward, index, step.block)):
            raise WritesRefused(f"heads' writes must reach the residual stream as they are, got {step.block}, which adds something else (a norm behind W_O?).")
        return  # blocks of one model are built alike: the first is looked at


def _given_by(forward: PartialForward, name: str, call: int) -> Float[Tensor, "B T M"]:
    read = forward.cache.wo_inputs[call].flatten(2)
    with torch.no_grad():
        return forward.session.module(name)(read).float()


def _others(forward: PartialForward, index: int, block: str) -> list[Tensor]:
    """What the modules inside a block gave."""
    found: list[Tensor] = []

    def hook(module: nn.Module, args: Any, result: Any) -> None:
        first = result[0] if isinstance(result, tuple) and result else result
        if isinstance(first, Tensor):
            found.append(first.detach().float())

    inside = [module for name, module in forward.twin.get_submodule(block).named_modules() if name]
    handles = [module.register_forward_hook(hook) for module in inside]
    call = next(call for call, (where, _) in forward.cache.resume_points.items() if where == index)
    try:
        forward.outputs([call], lambda call, read: read, 1)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _close(x: Tensor, y: Tensor) -> bool:
    if x.numel() != y.numel():
        return False
    y = y.reshape(x.shape)  # some blocks have their tokens in one row
    return bool(((x - y).abs() <= SLACK * x.abs().max().clamp(min=1e-6)).all())

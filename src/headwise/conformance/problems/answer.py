"""What an attention gives back, whoever computed it; and how it was asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from headwise.axes import Float, Tensor


@dataclass(frozen=True, eq=False)
class Answer:
    """What came back. A layer gives [B, T, M] as its output.

    Attributes:
        output: what the heads say, [B, H, T, E]; of a layer what it puts out, [B, T, M].
        weights: [B, H, T, S], or [B, T, S] where they are averaged over heads; None where they were not asked for or never come.
        lse: [B, H, T], the sink included; None where the subject does not tell.
        gradients: of (output · upstream) summed, by the name of the tensor: query, key, value, bias, sink; of a layer x,
            context, w_q, w_k, w_v, w_o and its biases.
        writes: what each head of a layer adds to the output, [B, H, T, M]; None where it does not tell.
    """

    output: Float[Tensor, "..."]
    weights: Float[Tensor, "..."] | None = None
    lse: Float[Tensor, "B H T"] | None = None
    gradients: Mapping[str, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    writes: Float[Tensor, "B H T M"] | None = None


@dataclass(frozen=True, eq=False)
class How:
    """How a subject is to be called. None of it may change the output (dropout in training apart): that is an invariant.

    Attributes:
        weights: ask for the weights too.
        grad: gradients are enabled and the inputs require them; otherwise the call runs under `torch.no_grad()`.
        upstream: gradient of the output; the answer then carries gradients. Implies `grad`.
        alone: the only tensor that requires a gradient; all of them where it is "".
        training: modules in training mode; dropout is on if the problem has any.
        seed: `torch.manual_seed` of the call, so that dropout can be drawn again.
        path: one of the subject's `paths`; "" is its usual one.
    """

    weights: bool = False
    grad: bool = False
    upstream: Float[Tensor, "..."] | None = None
    alone: str = ""
    training: bool = False
    seed: int = 0
    path: str = ""


PLAINLY = How()

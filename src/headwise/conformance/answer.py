"""What an attention returns, whatever computed it, and the mode in which it was called."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from headwise.axes import Float, Tensor


@dataclass(frozen=True, eq=False)
class Answer:
    """The result of one call.

    Attributes:
        output: z of every head, [B, H, T, E]; of a layer its output, [B, T, M].
        weights: attention weights [B, H, T, S], or [B, T, S] where they are averaged over heads; None where they were not requested or are never returned.
        lse: log-sum-exp of every row, the sink included, [B, H, T]; None where the subject does not return it.
        gradients: of Σ output · upstream, by the name of the tensor: query, key, value, bias, sink; of a layer x, context, w_q, w_k, w_v, w_o and its biases.
        writes: what each head of a layer adds to the output, [B, H, T, M]; None where the subject does not return it.
    """

    output: Float[Tensor, "..."]
    weights: Float[Tensor, "..."] | None = None
    lse: Float[Tensor, "B H T"] | None = None
    gradients: Mapping[str, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    writes: Float[Tensor, "B H T M"] | None = None


@dataclass(frozen=True, eq=False)
class CallMode:
    """How a subject is called. No mode may change the output, dropout in training apart.

    Attributes:
        weights: request the attention weights.
        grad: gradients are enabled and the inputs require them; otherwise the call runs under `torch.no_grad()`.
        upstream: gradient of the output; the answer then carries gradients. Implies `grad`.
        only_grad_of: the only tensor that requires a gradient; "" for all of them.
        training: modules are in training mode; dropout is active if the problem has any.
        seed: `torch.manual_seed` of the call, so that a dropout mask can be drawn again.
        path: one of the subject's `paths`; "" for the usual one.
    """

    weights: bool = False
    grad: bool = False
    upstream: Float[Tensor, "..."] | None = None
    only_grad_of: str = ""
    training: bool = False
    seed: int = 0
    path: str = ""


PLAIN = CallMode()

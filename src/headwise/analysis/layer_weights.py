"""Every weight of a layer, for texts that are short enough to hold them."""

from typing import TYPE_CHECKING

from headwise.attention.weights import weights
from headwise.axes import Float, Tensor

if TYPE_CHECKING:
    from headwise.models.run import Run


def layer_weights(run: "Run", layer: int, part: str | None = None) -> Float[Tensor, "B H T S"]:
    """The exact weights of every head of a layer.

    Args:
        layer: the attention call, counted within the part.
    """
    call = run.stored_call(layer, part)
    return weights(call.query, call.key, call.lse, call.call, slice(0, call.query.shape[2]), slice(0, call.key.shape[2])).cpu()

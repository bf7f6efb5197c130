"""M3: heads meet only here. Each goes through its own block of w_o, and what they write adds up."""

from torch import einsum

from headwise.axes import Float, Output, Tensor


def write(z: Output, w_o: Float[Tensor, "H E M"]) -> Float[Tensor, "B H T M"]:
    """What each head adds to the output: z · w_o[head]."""
    return einsum("bhte,hem->bhtm", z, w_o)


def add_up(writes: Float[Tensor, "B H T M"], b_o: Float[Tensor, " M"] | None = None) -> Float[Tensor, "B T M"]:
    """The output as the sum over heads of what they write. The bias belongs to no head."""
    out = writes.sum(1)
    return out if b_o is None else out + b_o


def concat(z: Output) -> Float[Tensor, "B T HE"]:
    """What all heads say, side by side."""
    return z.transpose(1, 2).flatten(2)


def combine(z: Output, w_o: Float[Tensor, "H E M"], b_o: Float[Tensor, " M"] | None = None) -> Float[Tensor, "B T M"]:
    """The same output by one product, concat(z) · w_o, with no head's write on its own."""
    out = concat(z) @ w_o.flatten(0, 1)
    return out if b_o is None else out + b_o


def blocks_of(weight: Float[Tensor, "M HE"], heads: int) -> Float[Tensor, "H E M"]:
    """The block of each head, from the weight of the Linear that follows the heads.

    Example:
        >>> import torch
        >>> list(blocks_of(torch.zeros(4, 6), heads=2).shape)
        [2, 3, 4]
    """
    return weight.T.unflatten(0, (heads, -1))

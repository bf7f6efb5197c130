"""M1: the width of the model is split over the heads; each head reads x through a slice of the map that is its own."""

from torch import einsum

from headwise.axes import Float, Tensor


def project(x: Float[Tensor, "B T M"], w: Float[Tensor, "M H D"], b: Float[Tensor, "H D"] | None = None) -> Float[Tensor, "B H T D"]:
    """What every head reads in every token: x · w[head] + b[head]."""
    read = einsum("btm,mhd->bhtd", x, w)
    return read if b is None else read + b[:, None]


def slices_of(weight: Float[Tensor, "HD M"], heads: int) -> Float[Tensor, "M H D"]:
    """The map of each head, from the weight of a Linear that holds the heads below one another.

    Example:
        >>> import torch
        >>> list(slices_of(torch.zeros(6, 4), heads=2).shape)
        [4, 2, 3]
    """
    return weight.T.unflatten(1, (heads, -1))

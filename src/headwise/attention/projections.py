"""The linear maps around the heads: into queries, keys and values (M1), and from the heads' outputs back to the model width (M3)."""

from torch import einsum

from headwise.axes import Float, Output, Tensor


def project(x: Float[Tensor, "B T M"], w: Float[Tensor, "M H D"], b: Float[Tensor, "H D"] | None = None) -> Float[Tensor, "B H T D"]:
    """What every head reads in every token: x · w[head] + b[head]."""
    read = einsum("btm,mhd->bhtd", x, w)
    return read if b is None else read + b[:, None]


def split_in_proj(weight: Float[Tensor, "HD M"], heads: int) -> Float[Tensor, "M H D"]:
    """The map of each head, from the weight of a Linear that holds the heads below one another.

    Example:
        >>> import torch
        >>> list(split_in_proj(torch.zeros(6, 4), heads=2).shape)
        [4, 2, 3]
    """
    return weight.T.unflatten(1, (heads, -1))


def head_writes(z: Output, w_o: Float[Tensor, "H E M"]) -> Float[Tensor, "B H T M"]:
    """What each head adds to the output: z · w_o[head]."""
    return einsum("bhte,hem->bhtm", z, w_o)


def sum_heads(writes: Float[Tensor, "B H T M"], b_o: Float[Tensor, " M"] | None = None) -> Float[Tensor, "B T M"]:
    """The output as the sum over heads of what they write. The bias belongs to no head."""
    out = writes.sum(1)
    return out if b_o is None else out + b_o


def concat_heads(z: Output) -> Float[Tensor, "B T HE"]:
    """What all heads say, side by side."""
    return z.transpose(1, 2).flatten(2)


def project_output(z: Output, w_o: Float[Tensor, "H E M"], b_o: Float[Tensor, " M"] | None = None) -> Float[Tensor, "B T M"]:
    """The same output by one product, concat(z) · w_o, with no head's write on its own."""
    out = concat_heads(z) @ w_o.flatten(0, 1)
    return out if b_o is None else out + b_o


def split_out_proj(weight: Float[Tensor, "M HE"], heads: int) -> Float[Tensor, "H E M"]:
    """The block of each head, from the weight of the Linear that follows the heads.

    Example:
        >>> import torch
        >>> list(split_out_proj(torch.zeros(4, 6), heads=2).shape)
        [2, 3, 4]
    """
    return weight.T.unflatten(0, (heads, -1))

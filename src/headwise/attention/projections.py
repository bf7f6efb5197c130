"""The linear maps of a layer: from the tokens to each head's queries, keys and values (M1), and from the heads' outputs to out (M3)."""

from torch import einsum

from headwise.axes import Float, Output, Tensor


def project(x: Float[Tensor, "B T M"], w: Float[Tensor, "M H D"], b: Float[Tensor, "H D"] | None = None) -> Float[Tensor, "B H T D"]:
    """The queries, keys or values of every head: x · w[head] + b[head]."""
    projected = einsum("btm,mhd->bhtd", x, w)
    return projected if b is None else projected + b[:, None]


def head_writes(z: Output, w_o: Float[Tensor, "H E M"]) -> Float[Tensor, "B H T M"]:
    """What each head adds to the output: z · w_o[head]."""
    return einsum("bhte,hem->bhtm", z, w_o)


def sum_heads(writes: Float[Tensor, "B H T M"], b_o: Float[Tensor, " M"] | None = None) -> Float[Tensor, "B T M"]:
    """The output as the sum of the heads' writes, plus the output bias, which belongs to no head."""
    out = writes.sum(1)
    return out if b_o is None else out + b_o


def concat_heads(z: Output) -> Float[Tensor, "B T HE"]:
    """The outputs of all heads side by side."""
    return z.transpose(1, 2).flatten(2)


def project_output(z: Output, w_o: Float[Tensor, "H E M"], b_o: Float[Tensor, " M"] | None = None) -> Float[Tensor, "B T M"]:
    """The same output by one matrix product, concat(z) · w_o, without the writes of single heads."""
    out = concat_heads(z) @ w_o.flatten(0, 1)
    return out if b_o is None else out + b_o


def split_in_proj(weight: Float[Tensor, "HD M"], heads: int) -> Float[Tensor, "M H D"]:
    """The matrix of each head, from the weight of a Linear whose output is that of all heads, one after the other.

    Example:
        >>> import torch
        >>> list(split_in_proj(torch.zeros(6, 4), heads=2).shape)
        [4, 2, 3]
    """
    return weight.T.unflatten(1, (heads, -1))


def split_out_proj(weight: Float[Tensor, "M HE"], heads: int) -> Float[Tensor, "H E M"]:
    """The block of each head, from the weight of the output Linear.

    Example:
        >>> import torch
        >>> list(split_out_proj(torch.zeros(4, 6), heads=2).shape)
        [2, 3, 4]
    """
    return weight.T.unflatten(0, (heads, -1))

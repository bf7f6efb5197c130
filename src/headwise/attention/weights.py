"""The exact weights of any rectangle of the T x S map, from q, k, lse and the call: nothing else needs to be kept."""

import torch

from headwise.attention.call import Call, tile_of, unrounded
from headwise.attention.mask import visible
from headwise.axes import Float, Key, Query, Rows, Tensor


def weights(query: Query, key: Key, lse: Rows, call: Call, rows: slice, keys: slice) -> Float[Tensor, "B H t s"]:
    """The weights that the queries of `rows` give to `keys`, in the dtype of `lse`; hidden ones are exactly 0.

    Args:
        query: all queries of the call.
        key: all keys of the call.
        lse: of every row, as `attend` gave it.
        call: the call that gave it.
        rows: start and stop are given, step is not.
        keys: likewise.
    """
    scores = masked_scores(query, key, call, rows, keys, lse.dtype)
    ends = lse.masked_fill(lse == torch.inf, torch.nan)  # a row with an infinite score has no weights
    found = (scores - ends[:, :, rows, None]).exp()
    return found.masked_fill(scores == -torch.inf, 0)


def masked_scores(query: Query, key: Key, call: Call, rows: slice, keys: slice, dtype: torch.dtype) -> Float[Tensor, "B H t s"]:
    """What the softmax sees of a rectangle: scaled, capped, biased; -inf where hidden."""
    groups = key.shape[1]
    q = query[:, :, rows].to(dtype).unflatten(1, (groups, query.shape[1] // max(groups, 1)))
    k = key[:, :, keys].to(dtype)
    with unrounded(query):
        scores = torch.einsum("bgrtd,bgsd->bgrts", q * call.scale, k).flatten(1, 2)
    if call.softcap is not None:
        scores = torch.tanh(scores / call.softcap) * call.softcap
    hidden = ~visible(call, query.shape[2], key.shape[2]).tile(rows, keys)
    if call.bias is not None:
        bias = tile_of(call.bias, rows, keys)
        scores, hidden = scores + bias, hidden | (bias == -torch.inf)
    return scores.masked_fill(hidden, -torch.inf)

"""Attentions to be checked: wrong in ways that no file of attacks has, right in unusual ways, and badly behaved."""

import time
from collections.abc import Callable

import torch
from torch import nn


def correct(query, key, value, *, causal=False, query_offset=None, mask=None, scale=None):
    """The formula, with a guard for rows that see nothing."""
    heads, groups, queries, keys = query.shape[1], key.shape[1], query.shape[2], key.shape[2]
    key, value = (x.repeat_interleave(heads // max(groups, 1), 1) for x in (key, value))
    scores = query.double() @ key.double().mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    seen = torch.ones(scores.shape, dtype=torch.bool)
    if causal:
        offset = torch.as_tensor(keys - queries if query_offset is None else query_offset).reshape(-1, 1, 1, 1)
        seen = seen & (torch.arange(keys) <= offset + torch.arange(queries)[:, None])
    if mask is not None:
        seen = seen & mask
    dead = ~seen.any(-1, keepdim=True)
    weights = torch.where(dead, 0.0, scores.masked_fill(~seen, -torch.inf).masked_fill(dead, 0.0).softmax(-1))
    return (weights @ value.double()).to(query.dtype)


def when(faulty: Callable[..., bool], spoil: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Right, but for some inputs."""

    def attend(query, key, value, *, causal=False, query_offset=None, mask=None, scale=None):
        options = {"causal": causal, "query_offset": query_offset, "mask": mask, "scale": scale}
        output = correct(query, key, value, **options)
        return spoil(query, key, value, output, options) if faulty(query, key, value, options) else output

    return attend


def _swapped(query, key, value, output, options):
    """The first key is forgotten."""
    hidden = torch.ones(1, 1, 1, key.shape[2], dtype=torch.bool)
    hidden[..., 0] = False
    mask = hidden if options["mask"] is None else options["mask"] & hidden
    return correct(query, key, value, **{**options, "mask": mask})


def _last_batch_row(query, key, value, output, options):
    return torch.cat([output[:-1], output[-1:] * 1.01])


def _off_by_one(query, key, value, output, options):
    offset = key.shape[2] - query.shape[2] if options["query_offset"] is None else torch.as_tensor(options["query_offset"])
    return correct(query, key, value, **{**options, "query_offset": offset - 1, "scale": 1.1 * (options["scale"] or 0.5)})


WRONG = {
    "two faults at once": when(lambda q, k, v, o: o["causal"], _off_by_one),
    "only one query": when(lambda q, k, v, o: q.shape[2] == 1 and k.shape[2] > 1, _swapped),
    "only past 64 keys": when(lambda q, k, v, o: k.shape[2] > 64, _swapped),
    "only bfloat16": when(lambda q, k, v, o: q.dtype == torch.bfloat16, lambda q, k, v, output, o: output * 1.25),
    "only three heads": when(lambda q, k, v, o: q.shape[1] == 3, lambda q, k, v, output, o: output.flip(1)),
    "only the last row of a batch": when(lambda q, k, v, o: len(q) > 1, _last_batch_row),
    "only negative scales": when(lambda q, k, v, o: (o["scale"] or 0) < 0, lambda q, k, v, output, o: correct(q, k, v, **{**o, "scale": -o["scale"]})),
    "only offsets in a tensor": when(
        lambda q, k, v, o: isinstance(o["query_offset"], torch.Tensor), lambda q, k, v, output, o: correct(q, k, v, **{**o, "query_offset": 0})
    ),
    "only masks of two axes": when(
        lambda q, k, v, o: o["mask"] is not None and o["mask"].dim() == 2, lambda q, k, v, output, o: correct(q, k, v, **{**o, "mask": None})
    ),
    "only wider values than keys": when(lambda q, k, v, o: v.shape[3] > q.shape[3], lambda q, k, v, output, o: output.roll(1, -1)),
    "only when strides are unusual": when(lambda q, k, v, o: not q.is_contiguous(), lambda q, k, v, output, o: output.flip(2) * 0.5),
}


def summed_backwards(query, key, value, *, causal=False, mask=None, scale=None):
    """Keys from the last to the first."""
    queries, keys = query.shape[2], key.shape[2]
    seen = torch.ones(1, 1, queries, keys, dtype=torch.bool)
    if causal:
        seen = seen.tril(keys - queries)
    seen = (seen if mask is None else seen & mask).expand(len(query), query.shape[1], queries, keys)
    return correct(query, key.flip(2), value.flip(2), mask=seen.flip(3), scale=scale)


def in_blocks(query, key, value, *, scale=None, mask=None):
    """Keys two at a time, with a running maximum."""
    wide = torch.float64
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], 1).to(wide) for x in (key, value))
    shape = (*query.shape[:3], key.shape[2])
    seen = torch.ones(shape, dtype=torch.bool) if mask is None else mask.broadcast_to(shape)
    top = torch.full((*query.shape[:3], 1), -torch.inf, dtype=wide)
    total, said = torch.zeros_like(top), torch.zeros(*query.shape[:3], value.shape[3], dtype=wide)
    for start in range(0, key.shape[2], 2):
        block = slice(start, start + 2)
        scores = (query.to(wide) @ key[:, :, block].mT * factor).masked_fill(~seen[..., block], -torch.inf)
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        base = higher.masked_fill(higher == -torch.inf, 0.0)
        mass, shrink = (scores - base).exp(), (top - base).exp()
        total, said, top = total * shrink + mass.sum(-1, keepdim=True), said * shrink + mass @ value[:, :, block], higher
    return (said / total.masked_fill(total == 0, 1.0)).to(query.dtype)


def scale_split(query, key, value, *, causal=False, scale=None):
    """Half of the scale on the queries, half on the keys; its sign apart."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    root, sign = abs(factor) ** 0.5, (factor > 0) - (factor < 0)
    return correct(query.double() * root, key.double() * root, value.double(), causal=causal, scale=float(sign)).to(query.dtype)


def sink_as_a_key(query, key, value, *, sink=None, causal=False):
    """The sink is one more key, whose logit is written in by hand."""
    heads, queries, keys = query.shape[1], query.shape[2], key.shape[2]
    key, value = (x.repeat_interleave(heads // key.shape[1], 1).double() for x in (key, value))
    scores = query.double() @ key.mT * query.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries), -torch.inf)
    extra = torch.full((heads,), -1e300, dtype=torch.float64) if sink is None else sink.double()
    row = torch.cat([scores, extra[None, :, None, None].expand(*scores.shape[:3], 1)], -1)
    whole = torch.cat([value, torch.zeros_like(value[:, :, :1])], 2)
    return (row.softmax(-1) @ whole).to(query.dtype)


def masks_from_lengths(query, key, value, mask=None):
    """True hides, as padding masks have it."""
    return correct(query, key, value, mask=None if mask is None else ~mask)


HONEST = {
    "summed backwards": summed_backwards,
    "in blocks": in_blocks,
    "scale split": scale_split,
    "sink as a key": sink_as_a_key,
    "True hides": masks_from_lengths,
}


def tokens_first(query, key, value, *, is_causal=False):
    """[B, T, H, D]."""
    return correct(*(x.transpose(1, 2) for x in (query, key, value)), causal=is_causal).transpose(1, 2)


def packed(query, key, value, cu_seqlens_q, cu_seqlens_k, causal=False):
    """Texts behind one another."""
    texts = []
    for n in range(len(cu_seqlens_q) - 1):
        rows, keys = slice(*cu_seqlens_q[n : n + 2].tolist()), slice(*cu_seqlens_k[n : n + 2].tolist())
        q, k, v = (x[part].transpose(0, 1)[None] for x, part in ((query, rows), (key, keys), (value, keys)))
        texts.append(correct(q, k, v, causal=causal)[0].transpose(0, 1))
    return torch.cat(texts)


def raises(query, key, value, *, scale=None):
    if query.shape[2] == 1:
        raise KeyError("no rule for one query")
    return correct(query, key, value, scale=scale)


def hangs(query, key, value, *, causal=False):
    while causal and query.shape[2] == 4:
        time.sleep(0.01)
    return correct(query, key, value, causal=causal)


def dies(query, key, value, *, causal=False):
    if causal and query.shape[2] == 4:
        import os

        os.abort()
    return correct(query, key, value)


def wrong_scale(query, key, value, *, scale=None):
    return correct(query, key, value, scale=query.shape[-1] ** -1.0 if scale is None else scale)


def wrong_shape(query, key, value):
    return correct(query, key, value).transpose(1, 2)


def wrong_dtype(query, key, value):
    return correct(query, key, value).float()


def changes_inputs(query, key, value):
    output = correct(query, key, value)
    if not key.requires_grad:
        key.mul_(2)
    return output


def prints(query, key, value):
    print("scores", query.shape)
    return correct(query, key, value)


def forgets_its_seed(query, key, value):
    return correct(query, key, value) + 1e-3 * torch.rand(())


def returns_nothing(query, key, value):
    return None


class SelfAttention(nn.Module):
    """Packed maps, as many small models have them; rows that see nothing give 0."""

    def __init__(self, width: int = 16, num_heads: int = 4) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def split(self, x):
        return self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x, mask=None):
        z = correct(*self.split(x), mask=mask)
        return self.proj(z.transpose(1, 2).flatten(2))


class ByHead(SelfAttention):
    """Query, key and value of each head in turn; always causal."""

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (self.num_heads, 3, -1)).permute(3, 0, 2, 1, 4)
        return self.proj(correct(q, k, v, causal=True).transpose(1, 2).flatten(2))


class MergedWrongly(SelfAttention):
    """Heads are merged by a reshape."""

    def forward(self, x, mask=None):
        z = correct(*self.split(x), mask=mask)
        return self.proj(z.reshape(x.shape))


class Grouped(nn.Module):
    """Maps of their own, two key heads for four, cross-attention too."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = 4, 2
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 16)

    def forward(self, x, context=None, attention_mask=None):
        looked_at = x if context is None else context
        q, k, v = self.q_proj(x), self.k_proj(looked_at), self.v_proj(looked_at)
        q, k, v = (part.unflatten(-1, (-1, 4)).transpose(1, 2) for part in (q, k, v))
        return self.o_proj(correct(q, k, v, mask=attention_mask).transpose(1, 2).flatten(2))


def hangs_at_once(query, key, value):
    """On whatever is asked."""
    time.sleep(3600)


def hangs_without_keys(query, key, value, *, causal=False):
    """Only where there is nothing to look at, which is asked before any law."""
    while not key.shape[2]:
        time.sleep(0.01)
    return correct(query, key, value, causal=causal)


def dies_under_a_mask(query, key, value, *, mask=None):
    """Whenever there is one."""
    if mask is not None:
        import os

        os.abort()
    return correct(query, key, value)


def exits(query, key, value):
    """As if the shell were done."""
    raise SystemExit(3)

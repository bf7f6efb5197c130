"""A plain attention with one fault at a time: what people really got wrong, so that a test can show that it would notice.

`attend(..., fault=None)` is right (the tests hold it to that); each named fault is a line or two of the same code. It
shares nothing with headwise.
"""

from types import SimpleNamespace

import torch
from torch import Tensor

FAULTS = {
    # rows that see nothing
    "softmax of nothing": "rows that see no key become NaN",
    "finite fill": "hidden scores are a large finite number: rows that see no key become the mean of the values",
    "online without a guard": "keys in blocks of two, -inf minus -inf where the first block is hidden",
    # masks
    "fill -1e4": "hidden scores are -10000, which real scores can undercut",
    "fill -1e-9": "hidden scores are nearly 0",
    "fill +inf": "the sign is wrong",
    "mask after softmax": "weights are hidden after they were shared out",
    "mask times scores": "hidden scores become 0",
    "or": "a key is seen when mask or causality allows it",
    "mask replaces causal": "with a mask the causal rule is forgotten",
    "mask added": "True and False are added to the scores as 1 and 0",
    "bias as mask": "a bias hides where it is not 0",
    "bias ignored": "a bias of float numbers is forgotten",
    "inverted": "True hides",
    "zero times inf": "the mask becomes (1 - mask) times -inf",
    "tiled over heads": "the masks of a batch are repeated as [0 1 0 1] where heads come as [0 0 1 1]",
    "mask on queries": "what hides keys hides queries too",
    "mask of row 0": "the first batch row's mask serves all",
    "mask as long as keys": "a mask of one batch row is read on past its end: rows of other batches see all",
    # causal, window
    "top left": "query i sees keys up to i, however many keys there are",
    "one key too many": "a query sees the key after its own",
    "strictly before": "a query does not see its own key",
    "causal ignored": "",
    "window + 1": "one key too many",
    "window - 1": "one key too few",
    "window needs mask": "without a mask the window is forgotten",
    "window 0 is off": "a window that leaves nothing is taken for none",
    # scale
    "model width": "scores are divided by the root of heads times width",
    "times root": "scores are multiplied by the root of the width",
    "no scale": "",
    "default scale": "the scale given is ignored",
    "size of scale": "the sign of the scale is lost",
    "mask before scale": "-inf is written before scores are multiplied",
    # heads
    "axes swapped": "attention runs over heads",
    "tiled groups": "head h reads key head h % G",
    "first group": "every head reads key head 0",
    "half the groups": "the divisor is off: only the first half of the key heads is read",
    "repeated along keys": "keys are repeated along their own axis",
    # cap and sink
    "cap after mask": "hidden scores become -cap",
    "no sink": "",
    "sink twice": "",
    "sink renormalised": "weights are shared out again without the sink",
    "one sink for all": "",
    "sink scaled": "",
    # layout and widths
    "contiguous strides": "memory is read as though it were contiguous",
    "last key lost": "the last key is dropped when one is left over of 32",
    "width of query": "the output is as wide as the query",
    "batch lost": "a batch of one loses its axis length",
    "empty refused": "an axis of length 0 is an error",
    # gradients
    "mean over the group": "gradients of keys and values are averaged over their query heads",
    "first of the group": "gradients of keys and values come from the first query head alone",
    "upstream contiguous": "the gradient that comes in is read as though it were contiguous",
    "dead rows ignored in gradients": "rows that see no key get NaN gradients though their output was put right",
}


def attend(
    query, key, value, *, causal=False, query_offset=None, window=None, mask=None, bias=None, scale=None, softcap=None, sink=None, statistics=(), fault=None
) -> SimpleNamespace:
    query, key, value, mask = _laid_out(query, key, value, mask, fault)
    heads, width = query.shape[1], query.shape[3]
    k, v = _share(key, heads, fault), _share(value, heads, fault)
    seen = _seen((*query.shape[:3], k.shape[2]), causal, query_offset, window, mask, fault)
    usual = {"model width": max(heads * width, 1) ** -0.5, "times root": width**0.5, "no scale": 1.0}.get(fault, width**-0.5)
    scale = usual if scale is None or fault == "default scale" else scale
    scores, seen = _score(query.double() @ k.double().mT, seen, abs(scale) if fault == "size of scale" else scale, softcap, bias, fault)
    if mask is not None and fault == "mask added":
        scores = scores + mask.double()
    scores = _hide(scores, seen, fault)
    if fault == "cap after mask":
        scores = torch.where(seen, scores, -softcap if softcap else -torch.inf)
    weights, lse, gone = _share_out(scores, seen, sink, scale, fault)
    return SimpleNamespace(
        output=_said(weights @ v.double(), width, fault).to(query.dtype),
        lse=lse.to(torch.promote_types(query.dtype, torch.float32)),
        statistics={"sink": gone.detach()} if "sink" in statistics else {},
    )


def _laid_out(query, key, value, mask, fault):
    if fault == "contiguous strides":
        query, key, value = (x if x.is_contiguous() else x.as_strided(x.shape, torch.empty(x.shape).stride()) for x in (query, key, value))
    if fault == "axes swapped":
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    if fault == "empty refused" and 0 in (*query.shape, *key.shape):
        raise RuntimeError("an axis of length 0")
    if fault == "last key lost" and key.shape[2] % 32 == 1 and key.stride(1) == 0:
        key, value = key[:, :, :-1], value[:, :, :-1]
        mask = mask[..., :-1] if mask is not None and mask.shape[-1] > 1 else mask
    return query, key, value, mask


def _score(raw: Tensor, seen: Tensor, scale: float, softcap, bias, fault) -> tuple[Tensor, Tensor]:
    scores = torch.where(seen, raw, -torch.inf) * scale if fault == "mask before scale" else raw * scale
    if softcap is not None:
        inner = torch.where(seen, scores, -torch.inf) if fault == "cap after mask" else scores
        scores = softcap * torch.tanh(inner / softcap)
    if bias is None or fault == "bias ignored":
        return scores, seen
    if fault == "bias as mask":
        return scores, seen & (bias == 0)
    return scores + bias, seen & (bias > -torch.inf)


def _said(output: Tensor, width: int, fault) -> Tensor:
    if fault == "width of query":
        return torch.nn.functional.pad(output, (0, max(width - output.shape[-1], 0)))[..., :width]
    if fault == "batch lost" and len(output) == 1:
        return output[:0]
    if fault == "axes swapped":
        return output.transpose(1, 2)
    return _Careless.apply(output) if fault == "upstream contiguous" and output.requires_grad else output


def _share(x: Tensor, heads: int, fault) -> Tensor:
    groups = x.shape[1]
    each = heads // max(groups, 1)
    if fault == "repeated along keys":
        return x.repeat_interleave(each, 2)[:, :1].expand(-1, heads, -1, -1)
    reads = {
        "tiled groups": [h % groups for h in range(heads)] if groups else [],
        "first group": [0] * heads,
        "half the groups": [h // each // 2 for h in range(heads)] if each else [],
    }.get(fault, [h // each for h in range(heads)] if each else [])
    whole = x[:, reads]
    if fault == "mean over the group":
        return whole.detach() + (whole - whole.detach()) / each
    if fault == "first of the group":
        first = torch.tensor([h % each == 0 for h in range(heads)])[None, :, None, None]
        return torch.where(first, whole, whole.detach())
    return whole


def _seen(shape, causal, query_offset, window, mask, fault) -> Tensor:
    batch, heads, queries, keys = shape
    offset = torch.as_tensor(keys - queries if query_offset is None else query_offset).expand(batch)
    if fault == "top left":
        offset = torch.zeros_like(offset)
    p = (offset[:, None] + torch.arange(queries))[:, None, :, None]
    j = torch.arange(keys)
    seen = torch.ones(shape, dtype=torch.bool)
    if causal and fault != "causal ignored" and not (fault == "mask replaces causal" and mask is not None):
        seen = seen & (j <= p + {"one key too many": 1, "strictly before": -1}.get(fault, 0))
    if window is not None and not (fault == "window needs mask" and mask is None) and not (fault == "window 0 is off" and window in (0, (0, 0))):
        if isinstance(window, int):
            seen = seen & (j > p - window - {"window + 1": 1, "window - 1": -1}.get(fault, 0))
        else:
            left, right = window
            seen = seen if left is None else seen & (j >= p - left)
            seen = seen if right is None else seen & (j <= p + right)
    if mask is None:
        return seen
    mask = ~mask if fault == "inverted" else mask
    if fault == "or":
        return seen | mask if causal else seen & mask
    if fault == "mask added":
        return seen
    if fault == "mask of row 0" and mask.dim() == 4:
        mask = mask[:1]
    if fault == "mask as long as keys" and mask.dim() == 4 and mask.shape[0] == 1:
        mask = torch.cat([mask, torch.ones(batch - 1, *mask.shape[1:], dtype=torch.bool)])
    if fault == "tiled over heads" and mask.dim() == 4 and mask.shape[0] == batch:
        mask = mask.expand(batch, 1, queries, keys)[:, 0].repeat(heads, 1, 1).view(batch, heads, queries, keys)
    if fault == "mask on queries" and mask.shape[-2] == 1 and queries == keys:
        mask = mask & mask.mT
    return seen & mask


def _hide(scores: Tensor, seen: Tensor, fault) -> Tensor:
    fills = {"fill -1e4": -1e4, "fill -1e-9": -1e-9, "fill +inf": torch.inf, "finite fill": -1e30}
    if fault in ("mask after softmax", "mask before scale"):
        return scores
    if fault == "dead rows ignored in gradients":
        return scores + torch.where(seen, 0.0, -torch.inf)
    if fault == "mask times scores":
        return scores * seen
    if fault == "zero times inf":
        return scores + (1 - seen.double()) * -torch.inf
    return torch.where(seen, scores, fills.get(fault, -torch.inf))


def _share_out(scores: Tensor, seen: Tensor, sink, scale: float, fault) -> tuple[Tensor, Tensor, Tensor]:
    logit = torch.full((*scores.shape[:3], 1), -torch.inf, dtype=scores.dtype)
    if sink is not None and fault != "no sink":
        sink = sink.double() * (scale if fault == "sink scaled" else 1)
        sink = sink[:1].expand_as(sink) if fault == "one sink for all" else sink
        logit = sink[None, :, None, None].expand_as(logit)
        logit = torch.cat([logit, logit], -1) if fault == "sink twice" else logit
    whole = torch.cat([scores, logit], -1)
    if fault == "online without a guard":
        whole = _online(whole)
    alive = seen.any(-1, keepdim=True) | (logit > -torch.inf).any(-1, keepdim=True)
    put_right = fault not in ("softmax of nothing", "finite fill", "zero times inf", "fill +inf", "dead rows ignored in gradients", "online without a guard")
    safe = torch.where(alive, whole, 0.0) if put_right else whole
    lse = torch.where(alive[..., 0], safe.logsumexp(-1), -torch.inf)
    shares = safe.softmax(-1)
    weights, gone = shares[..., : scores.shape[-1]], shares[..., scores.shape[-1] :].sum(-1)
    if put_right:
        weights = torch.where(alive & seen, weights, 0.0) if fault not in ("mask after softmax", "mask times scores", "fill -1e4", "fill -1e-9") else weights
    if fault == "dead rows ignored in gradients":
        weights = torch.where(alive, weights, 0.0)
    if fault == "mask after softmax":
        weights = weights * seen
    if fault == "sink renormalised":
        weights, gone = weights / (1 - gone[..., None]), torch.zeros_like(gone)
    return weights, lse, gone


def _online(whole: Tensor) -> Tensor:
    """Scores that a running maximum of -inf has spoiled: rows whose first two keys are hidden."""
    spoiled = (whole[..., :2] == -torch.inf).all(-1, keepdim=True)
    return torch.where(spoiled, torch.nan, whole)


class _Careless(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output):
        return output.clone()

    @staticmethod
    def backward(ctx, upstream):
        return upstream.as_strided(upstream.shape, torch.empty(upstream.shape).stride())

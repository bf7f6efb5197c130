"""How far a right kernel may be off: first-order rounding analysis of one problem, from its own float64 numbers.

Sums of n terms are taken to lose λ·√n·u (Higham and Mary 2019, probabilistic error analysis, λ = 4), never more than n·u;
u is half the spacing of the dtype in which the kernel works: float32, or float64 for float64 input. What is returned is
rounded once more to its own dtype. Every bound is doubled, for the judge rounds too.

With A = |scale| Σ|q||k|, a score is off by e, a weight by the relative error r:
    e = u·(width·A + 8|s|)       r = e + u·(4|s - max| + 8) + its mean over the row + u·√keys
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tests.attention.problem import Problem

LAMBDA = 4.0


@dataclass(frozen=True)
class Allowed:
    """By name, how far each tensor that a kernel returns may be off."""

    output: Tensor
    lse: Tensor
    statistics: dict[str, Tensor]
    gradients: dict[str, Tensor]
    weights: Tensor


def allowed(problem: Problem, d_output: Tensor | None = None, d_lse: Tensor | None = None) -> Allowed:
    dtype = problem.query.dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    u, u_out = torch.finfo(wide).eps / 2, torch.finfo(dtype).eps / 2
    dust = max(_dust(x.dtype) for x in problem.params().values()) + torch.finfo(wide).tiny
    batch, heads, queries, keys = problem.shape
    width, groups = problem.query.shape[3], problem.key.shape[1]
    options = problem.double().options
    scale = options.get("scale", width**-0.5 if width else 1.0)
    cap, bias, sink = options.get("softcap"), options.get("bias"), options.get("sink")

    q = problem.query.detach().double()
    k, v = (x.detach().double().repeat_interleave(heads // max(groups, 1), 1) for x in (problem.key, problem.value))
    seen = problem.seen()
    size = abs(scale) * (q.abs() @ k.abs().mT)
    raw = scale * (q @ k.mT)
    e = u * (lose(width) + 4) * size
    slope = torch.ones_like(raw)
    scores = raw
    if cap is not None:
        bend = torch.tanh(raw / cap)
        scores, slope = cap * bend, 1 - bend**2
        e = e + 8 * u * scores.abs()
    if bias is not None:
        plain_bias = bias.detach().where(bias.detach() > -torch.inf, 0.0)
        scores = scores + plain_bias
        e = e + 2 * u * plain_bias.abs()
    e = e + u * scores.abs()
    scores = scores.masked_fill(~seen, -torch.inf)
    logit = scores.new_full((batch, heads, queries, 1), -torch.inf)
    if sink is not None:
        logit = sink.detach()[None, :, None, None].expand_as(logit)
    whole = torch.cat([scores, logit], -1)
    lse = whole.logsumexp(-1)
    top = whole.amax(-1, keepdim=True) if whole.numel() else lse[..., None]
    w, p_sink = (whole - lse[..., None]).exp().nan_to_num(0).split([keys, 1], -1)
    away = (whole - top).abs().nan_to_num(0, 0, 0)
    both = torch.cat([e, 2 * u * logit.abs().nan_to_num(0, 0, 0)], -1)
    r = both + u * (4 * away + 8)
    mean = (torch.cat([w, p_sink], -1) * r).sum(-1, keepdim=True) + u * (lose(keys + 1) + 4)
    r, r_sink = (r + mean).split([keys, 1], -1)

    allow_lse = mean[..., 0] + 3 * u * lse.abs().nan_to_num(0, 0, 0)
    slip = (w * r).amax(-1) if keys else mean[..., 0]
    out = w @ v
    allow_out = (w * r) @ v.abs() + u * (lose(keys) + 4) * (w @ v.abs()) + u_out * out.abs()
    # weights that are made again from lse
    again = r + 2 * u * (scores.abs().nan_to_num(0, 0, 0) + lse.abs().nan_to_num(0, 0, 0)[..., None]) + mean

    bounds = _statistics(problem, w, w * r, p_sink[..., 0] * (r_sink[..., 0] + 2 * mean[..., 0]), slip, u, again)
    slopes = {}
    if d_output is not None and d_lse is not None:
        rows = (w, again, p_sink[..., 0], lse, mean[..., 0], slope, e, out, allow_out)
        slopes = _gradients(problem, q, k, v, scale, cap, d_output.double(), d_lse.double(), rows, u, u_out)
    return Allowed(
        2 * allow_out + dust,
        2 * allow_lse + dust,
        {name: 2 * x + dust for name, x in bounds.items()},
        {name: 2 * x + dust for name, x in slopes.items()},
        2 * w * again + dust,
    )


def lose(n: int) -> float:
    """How many u a sum of n terms loses, relative to the sum of their sizes."""
    return min(float(n), LAMBDA * n**0.5)


def _dust(dtype: torch.dtype) -> float:
    """What vanishes next to 0: a few of the smallest numbers of a dtype."""
    return 4 * torch.finfo(dtype).tiny * torch.finfo(dtype).eps


def _statistics(problem: Problem, w: Tensor, slip: Tensor, slip_sink: Tensor, most: Tensor, u: float, again: Tensor) -> dict[str, Tensor]:
    """`slip` is how far each weight may be off."""
    batch, _, queries, keys = w.shape
    offset = problem.options.get("query_offset", keys - queries)
    position = torch.as_tensor(offset).expand(batch)[:, None] + torch.arange(queries)
    j = torch.arange(keys)
    away = (position[:, None, :, None] - j).abs().double()
    logs = w.clamp(min=1e-300).log().abs()
    squares = w.square().sum(-1)
    found = {
        "entropy": (slip * (logs + 1)).sum(-1) + u * (lose(keys) + 8) * (w * (2 * logs + 1)).sum(-1) + u * logs.min(-1).values * 4 if keys else w.sum(-1),
        "max_weight": most,
        "peak": 2 * most,
        "participation": 2 * ((w * slip).sum(-1) / squares + u * (lose(keys) + 4)) / squares,
        "distance": (slip * away).sum(-1) + u * (lose(keys) + 4) * (w * (away + 2 * keys)).sum(-1),
        "sink": slip_sink,
        "received": (w * again).sum(-2) + u * (lose(queries) + 4) * w.sum(-2),
    }
    for name, place in (("first", torch.zeros_like(position)), ("previous", position - 1), ("self", position)):
        column = (j == place[..., None])[:, None].double()
        found[name] = (slip * column).sum(-1)
    segments = problem.options.get("segments")
    if segments is not None:
        member = (segments[..., None] == torch.arange(max(int(segments.max()) + 1, 0) if segments.numel() else 0)).double()
        found["segment"] = torch.einsum("bhts,bsl->bhtl", slip + u * (lose(keys) + 4) * w, member)
    return found


def _gradients(problem, q, k, v, scale, cap, d_out, d_lse, rows, u, u_out) -> dict[str, Tensor]:
    """The same analysis of the backward: dS = w(dW - δ), δ = do·o - dlse, with weights made again from lse."""
    w, again, p_sink, lse, mean, slope, e, out, allow_out = rows
    (batch, heads, queries, keys), groups, wide = problem.shape, problem.key.shape[1], v.shape[3]
    group = heads // max(groups, 1)
    d_w = d_out @ v.mT
    off_d_w = u * (lose(wide) + 2) * (d_out.abs() @ v.abs().mT)
    delta = (d_out * out).sum(-1) - d_lse
    off_delta = (d_out.abs() * allow_out).sum(-1) + u * (lose(wide) + 2) * ((d_out * out).abs().sum(-1) + d_lse.abs())
    core = d_w - delta[..., None]
    off_s = w * (again * core.abs() + off_d_w + off_delta[..., None] + 4 * u * (d_w.abs() + delta.abs()[..., None]))
    d_s = w * core
    off_raw, d_raw = off_s * slope, d_s * slope
    if cap is not None:
        off_raw = off_raw + d_s.abs() * (2 * (1 - slope).clamp(min=0).sqrt() * slope * e / cap + 8 * u)

    def gather(x: Tensor) -> Tensor:
        return x.unflatten(1, (groups, group)).sum(2) if groups else x

    many = queries * group
    found = {
        "query": abs(scale) * (off_raw @ k.abs() + u * (lose(keys) + 4) * (d_raw.abs() @ k.abs())) + u_out * (scale * d_raw @ k).abs(),
        "key": abs(scale) * gather(off_raw.mT @ q.abs() + u * (lose(many) + 4) * (d_raw.abs().mT @ q.abs())) + u_out * (scale * gather(d_raw.mT @ q)).abs(),
        "value": gather((w * again).mT @ d_out.abs() + u * (lose(many) + 4) * (w.mT @ d_out.abs())) + u_out * gather(w.mT @ d_out).abs(),
    }
    bias, sink = problem.options.get("bias"), problem.options.get("sink")
    if bias is not None:
        whole = off_s + u * (lose(max(d_s.numel() // max(bias.numel(), 1), 1)) + 4) * d_s.abs()
        found["bias"] = (
            whole.sum_to_size(_four(bias)).reshape(bias.shape) + torch.finfo(bias.dtype).eps * d_s.sum_to_size(_four(bias)).reshape(bias.shape).abs()
        )
    if sink is not None:
        share = p_sink * ((mean + 2 * u * (lse.abs().nan_to_num(0, 0, 0) + 1)) * 2 * delta.abs() + off_delta)
        total = p_sink * delta
        found["sink"] = (share + u * (lose(batch * queries) + 4) * total.abs()).sum((0, 2)) + torch.finfo(sink.dtype).eps * total.sum((0, 2)).abs()
    return found


def _four(x: Tensor) -> tuple[int, ...]:
    return (1,) * (4 - x.dim()) + tuple(x.shape)

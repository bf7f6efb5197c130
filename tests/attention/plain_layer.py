"""A whole layer in plain Python and numpy, to judge `layer.py`: it shares nothing with headwise, positions included.

Numbers may be complex, so that a tiny imaginary part carries a derivative through (see `oracle`).
"""

from math import log

import numpy as np

from tests.attention import oracle


def layer(x, maps, *, context=None, past=None, position=None, mask=None, bias=None, query_offset=None, **rules) -> dict[str, np.ndarray]:
    """Every tensor of the path. `past` is what came before in the text, as input; `position` a pair (kind, arguments)."""
    context = x if context is None else context
    whole = context if past is None else np.concatenate([past, context], 1)
    q, k, v = (read(text, maps[f"w_{name}"], maps.get(f"b_{name}")) for name, text in (("q", x), ("k", whole), ("v", whole)))
    (batch, heads, queries, _), keys = q.shape, k.shape[2]
    stands = oracle.positions(batch, queries, keys, query_offset)
    kind, how = position or (None, {})
    if kind == "rotary":
        q, k = rotated(q, stands, **how), rotated(k, np.tile(np.arange(keys), (batch, 1)), **how)
    if kind in ("alibi", "buckets"):
        lean = (alibi if kind == "alibi" else buckets)(stands, heads, keys, **how)
        bias = lean if bias is None else lean + bias
    found = oracle.attention(q, k, v, mask=mask, bias=bias, query_offset=query_offset, sink=maps.get("sink"), **rules)
    writes = np.einsum("bhte,hem->bhtm", found.output, maps["w_o"])
    out = writes.sum(1) + maps.get("b_o", 0)
    return {"q": q, "k": k, "v": v, "weights": found.weights, "seen": found.seen, "z": found.output, "writes": writes, "out": out}


def read(x, w, b) -> np.ndarray:
    found = np.zeros((len(x), w.shape[1], x.shape[1], w.shape[2]), complex)
    for batch, head, token, feature in np.ndindex(found.shape):
        found[batch, head, token, feature] = (x[batch, token] * w[:, head, feature]).sum() + (0 if b is None else b[head, feature])
    return found


def rotated(x, stands, base=10_000.0, width=None, pairing="halves") -> np.ndarray:
    """Each pair of features turned by a 2 × 2 matrix."""
    turned = x.astype(complex)
    width = x.shape[-1] if width is None else width
    for b, n, t, m in np.ndindex(*x.shape[:3], width // 2):
        angle = float(stands[b, t]) / base ** (2 * m / width)
        pair = [m, m + width // 2] if pairing == "halves" else [2 * m, 2 * m + 1]
        matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        turned[b, n, t, pair] = matrix @ x[b, n, t, pair]
    return turned


def alibi(stands, heads, keys, slopes) -> np.ndarray:
    lean = np.zeros((*stands.shape[:1], heads, stands.shape[1], keys), complex)
    for b, h, i, j in np.ndindex(lean.shape):
        lean[b, h, i, j] = -slopes[h] * abs(int(stands[b, i]) - j)
    return lean


def buckets(stands, heads, keys, table, max_distance, bidirectional) -> np.ndarray:
    lean = np.zeros((*stands.shape[:1], heads, stands.shape[1], keys), complex)
    for b, h, i, j in np.ndindex(lean.shape):
        lean[b, h, i, j] = table[bucket(j - int(stands[b, i]), len(table), max_distance, bidirectional), h]
    return lean


def bucket(ahead, count, max_distance, bidirectional) -> int:
    """From the words of the paper, with logarithms."""
    count, first = (count // 2, count // 2 if ahead > 0 else 0) if bidirectional else (count, 0)
    far = abs(ahead) if bidirectional else max(-ahead, 0)
    single = count // 2
    if far < single:
        return first + far
    return first + min(single + int(log(far / single) / log(max_distance / single) * (count - single) + 1e-9), count - 1)

"""One head, row by row: the keys that each token attends to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.errors import ArgumentError

if TYPE_CHECKING:
    from headwise.axes import Float, Tensor
    from headwise.models.run import Run

BLOCK = 256  # rows whose weights are in memory at once
ROWS = 64  # rows that are shown by default
WHOLE = 512  # the longest side of a map that is drawn weight by weight


@dataclass(frozen=True)
class HeadRow:
    """The keys that one token attends to most.

    Attributes:
        query: its position among the queries.
        token: its text.
        keys: position, text and weight of each key, the largest weight first.
        rest: the weight on all other keys and on the sink.
    """

    query: int
    token: str
    keys: tuple[tuple[int, str, float], ...]
    rest: float


@dataclass(frozen=True)
class HeadView:
    """Some rows of one head.

    Attributes:
        length: how many rows the head has.
    """

    part: str
    layer: int
    head: int
    rows: tuple[HeadRow, ...]
    length: int


def head_view(run: "Run", part: str, place: tuple[int, int], rows: slice, top: int) -> HeadView:
    """The `top` largest weights of each of these rows, exact.

    Raises:
        ArgumentError: a head or rows that the run does not have.
    """
    layer, head = check_head(run, part, place)
    length = run.statistics_of(part).sizes["query"]
    first = rows.start or 0
    stop = min(first + ROWS, length) if rows.stop is None else rows.stop
    if not 0 <= first < stop <= length:
        raise ArgumentError(f"rows must lie within 0:{length}, got {first}:{stop}. Choose some of the text's {length} tokens.")
    return HeadView(part, layer, head, tuple(_rows(run, part, place, range(first, stop), top)), length)


def check_head(run: "Run", part: str, place: tuple[int, int]) -> tuple[int, int]:
    """The place itself, if the part has a head there.

    Raises:
        ArgumentError: it has none.
    """
    found = run.statistics_of(part)
    layers, heads = found.layer.values.tolist(), found.sizes["head"]
    if place[0] not in layers or not 0 <= place[1] < heads:
        span = f"layers {layers[0]} to {layers[-1]} and heads 0 to {heads - 1}"
        raise ArgumentError(f"head must lie within {span}, got {place[0]}.{place[1]}. Choose one of these.")
    return place


def head_map(run: "Run", part: str, place: tuple[int, int]) -> 'Float[Tensor, "t s"]':
    """All weights of a head; for a long text, a map of at most 256 × 256 pixels, each the largest weight in its cell."""
    layer, head = check_head(run, part, place)
    keys = run.weights(layer, head, queries=slice(0, 1), batch=0, part=part).shape[-1]
    if max(len(query_tokens(run, part)), keys) <= WHOLE:
        return run.weights(layer, head, batch=0, part=part)
    return run.tile(layer, head, level=8, column=0, row=0, pool="max", batch=0, part=part)


def query_tokens(run: "Run", part: str) -> Sequence[str]:
    """The query tokens of the first batch row."""
    return run.statistics_of(part)["token"].values[0].tolist()


def key_tokens(run: "Run", part: str) -> Sequence[str]:
    """The key tokens of the first batch row: for cross-attention those of the encoder, if it has tokens."""
    if not part.endswith("cross"):
        return query_tokens(run, part)
    encoder = part.replace("decoder.cross", "encoder.self")
    return query_tokens(run, encoder) if encoder != part and encoder in run.parts else ()


def _rows(run: "Run", part: str, place: tuple[int, int], queries: range, top: int) -> Iterator[HeadRow]:
    asking, asked = query_tokens(run, part), key_tokens(run, part)
    for start in range(queries.start, queries.stop, BLOCK):
        stop = min(start + BLOCK, queries.stop)
        found = run.weights(*place, queries=slice(start, stop), batch=0, part=part)
        largest = found.topk(min(top, found.shape[-1]), dim=-1)
        for query, weights, keys in zip(range(start, stop), largest.values.tolist(), largest.indices.tolist(), strict=True):
            shown = tuple((key, _at(asked, key), weight) for key, weight in zip(keys, weights, strict=True) if weight > 0)
            yield HeadRow(query, _at(asking, query), shown, max(1.0 - sum(weight for _, _, weight in shown), 0.0))


def _at(tokens: Sequence[str], place: int) -> str:
    return tokens[place] if place < len(tokens) else f"#{place}"

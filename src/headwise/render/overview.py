"""An overview of a run as a few tables: what `headwise look` prints, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headwise.errors import ArgumentError, WritesRefused
from headwise.render.head_table import HeadTable
from headwise.render.head_view import query_tokens
from headwise.render.measure import head_table, measures
from headwise.render.standout_heads import StandoutHeads, standout_heads

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.verification.proof import Proof


@dataclass(frozen=True)
class PartView:
    """One attention of the model.

    Attributes:
        tables: every measure by name.
        standout: the heads with the largest values of a few measures.
        refusal: why there are no numbers about the heads' writes; empty if there are.
    """

    tokens: tuple[str, ...]
    tables: Mapping[str, HeadTable]
    standout: tuple[StandoutHeads, ...]
    refusal: str = ""

    def table(self, measure: str) -> HeadTable:
        """The table of one measure.

        Raises:
            WritesRefused: it is a measure of writes, which cannot be attributed to heads in this model.
        """
        if measure not in self.tables:
            raise WritesRefused(self.refusal)
        return self.tables[measure]


@dataclass(frozen=True)
class Overview:
    """Every measure of every head of a run, by part, and the proof of the run."""

    parts: Mapping[str, PartView]
    notes: tuple[str, ...]
    proof: "Proof"


def overview(run: "Run", part: str | None = None, layers: Sequence[int] = ()) -> Overview:
    """Every measure of every head.

    Args:
        part: only this one; all when absent.
        layers: only these; all when empty.

    Raises:
        ArgumentError: a part or a layer that the run does not have.
    """
    chosen = [part_of(run, part)] if part is not None else list(run.parts)
    return Overview({name: _part(run, name, layers) for name in chosen}, tuple(run.notes), run.proof)


def part_of(run: "Run", part: str | None) -> str:
    """The part of this name, or the only one.

    Raises:
        ArgumentError: there is no such part, or several to choose from.
    """
    names = list(run.parts)
    if part is None and len(names) == 1:
        return names[0]
    if part is None or part not in names:
        raise ArgumentError(f"part must be one of {', '.join(names)} in this model, got {part or 'none'}. Choose one.")
    return part


def proof_sentence(proof: "Proof") -> str:
    """The proof as one line, for the footnote of a figure."""
    judged = [verdict for verdict in proof.verdicts.values() if verdict.passed is not None]
    held = sum(bool(verdict.passed) for verdict in judged)
    used = max((verdict.residual / verdict.allowed for verdict in judged if verdict.allowed and verdict.residual is not None), default=0.0)
    return f"Proved on this run: {held} of {len(judged)} checks passed; the closest used {used:.0%} of what rounding allows."


def to_plain(view: Overview) -> dict[str, Any]:
    """The overview as dicts and lists, for JSON."""
    return {
        "parts": {name: _plain_part(part) for name, part in view.parts.items()},
        "notes": list(view.notes),
        "proof": {
            "passed": view.proof.passed,
            "verdicts": [verdict.to_json() for verdict in view.proof.verdicts.values()],
        },
    }


def _plain_part(part: PartView) -> dict[str, Any]:
    layers = next(iter(part.tables.values())).layers
    standout = [asdict(heads) for heads in part.standout]
    return {
        "tokens": list(part.tokens),
        "layers": list(layers),
        "measures": {name: {"unit": table.unit, "values": table.values} for name, table in part.tables.items()},
        "standout_heads": standout,
        "telling": standout,  # the key up to version 0.1.0, for one release
        "writes_refused": part.refusal or None,
    }


def _part(run: "Run", part: str, layers: Sequence[int]) -> PartView:
    tables, refusal = dict[str, HeadTable](), ""
    for name, measure in measures().items():
        if measure.writes and refusal:
            continue
        try:
            tables[name] = head_table(run, part, name).only(layers)
        except WritesRefused as error:
            refusal = str(error)
    return PartView(tuple(query_tokens(run, part)), tables, standout_heads(tables), refusal)

"""The running example: 3 tokens of 4 features, with 1, 2 or 4 heads. Every matrix, and the five moves proved."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flint import arb_mat, fmpq_mat

from headwise.conformance.exact.ball_arithmetic import exact, floats, precision
from headwise.conformance.exact.exact_trace import ExactLayer, ExactTrace, exact_trace
from headwise.conformance.exact.move_verdict import MoveVerdict
from headwise.conformance.exact.witness import witness
from headwise.conformance.invariants.invariant import invariants
from headwise.conformance.mutations.mutation import mutations
from headwise.conformance.renamed_entries import current_name
from headwise.deprecation import renamed_attributes
from headwise.errors import ArgumentError

HEADS = (1, 2, 4)
EXAMPLE = ExactLayer(
    x=exact([[2, 1, 2, -1], [0, 0, 2, -1], [1, 1, 1, 0]]),
    w_q=exact([[0, 0.5, 0, 1.5], [1.5, -1, 1.5, 0.5], [-0.5, 0, -1, -1], [0, -0.5, -1, -1.5]]),
    w_k=exact([[0, -0.5, 0.5, 0], [-1, 0.5, 0.5, -0.5], [-1, 1, 1.5, 1.5], [-1.5, -1, -0.5, 1]]),
    w_v=exact([[-1.5, 0, 1.5, -0.5], [-0.5, -1, -1, 0.5], [-1, 1, 1.5, -1], [-0.5, 0.5, 1, 0.5]]),
    w_o=exact([[1, 1.5, 0.5, 0], [-1, 0, -1, -1], [-1, -1, 1.5, -1], [-1.5, 1.5, 1, -1]]),
)
PER_HEAD = ("q", "k", "v", "scores", "weights", "z", "writes")
OF_ALL_HEADS = ("concat", "out")
PROJECTIONS = ("w_q", "w_k", "w_v", "w_o")


@renamed_attributes(walk="trace")
@dataclass(frozen=True, eq=False)
class FiveMoves:
    """The example with this many heads, unchanged or under an attack, and the verdicts on the five moves.

    Attributes:
        heads: H.
        attack: name of the mutation, or None.
        trace: every matrix as balls, the projections as exact fractions.
        verdicts: "M1" to "M5", each proved to hold or to fall, or vacuous.
        witness: the same by another route.
    """

    heads: int
    attack: str | None
    trace: ExactTrace
    verdicts: Mapping[str, MoveVerdict]
    witness: Mapping[str, MoveVerdict]

    @property
    def fallen(self) -> tuple[str, ...]:
        """The codes of the moves that fall."""
        return tuple(code for code, verdict in self.verdicts.items() if verdict.state == "falls")

    @property
    def holds(self) -> bool:
        """Whether no move falls."""
        return not self.fallen

    @property
    def red(self) -> bool:
        """Whether the witness found a move that falls, or came to another verdict."""
        return any(verdict.state == "falls" or verdict.state != self.verdicts[code].state for code, verdict in self.witness.items())

    @property
    def matrices(self) -> Mapping[str, Any]:
        """The nearest floats of every matrix, in the order of the computation: [row][column], or [head][row][column] for what each head has of its own.

        `w_q`, `w_k`, `w_v` and `w_o` are the slices that the heads used, as the mutation has them; `maps` has the whole matrices.
        """
        found: dict[str, Any] = {"x": floats(self.trace.layer.x)}
        found |= {name: _each(getattr(self.trace.slices, name)) for name in PROJECTIONS}
        found |= {name: _each(getattr(self.trace, name)) for name in PER_HEAD}
        found |= {name: floats(getattr(self.trace, name)) for name in OF_ALL_HEADS}
        return MappingProxyType(found)

    @property
    def maps(self) -> Mapping[str, list[list[float]]]:
        """The projections, whole and unchanged."""
        return MappingProxyType({name: floats(getattr(self.trace.layer, name)) for name in PROJECTIONS})

    def as_dict(self) -> dict[str, Any]:
        """Everything as lists, strings and numbers, for JSON."""
        return {
            "heads": self.heads,
            "attack": self.attack,
            "holds": self.holds,
            "red": self.red,
            "maps": dict(self.maps),
            "matrices": dict(self.matrices),
            "verdicts": {code: _as_dict(verdict) for code, verdict in self.verdicts.items()},
            "witness": {code: _as_dict(verdict) for code, verdict in self.witness.items()},
        }


def five_moves(h: int, attack: str | None = None) -> FiveMoves:
    """The 3 × 4 example with h heads: every matrix, and a proof for each of the five moves.

    Proved by ball arithmetic at 128 bits: numbers are "equal" where their enclosures overlap and are narrower than 1e-25, and "differ" where they do not
    overlap. No float is compared within a tolerance.

    Args:
        h: number of heads, 1, 2 or 4.
        attack: name of a mutation of the example; None for the unchanged layer.

    Raises:
        ArgumentError: another number of heads, or a mutation that does not exist.

    Example:
        >>> {code: verdict.state for code, verdict in five_moves(2, attack="tie_heads").verdicts.items()}
        {'M1': 'holds', 'M2': 'holds', 'M3': 'holds', 'M4': 'holds', 'M5': 'falls'}
        >>> [[round(weight, 2) for weight in row] for row in five_moves(2).matrices["weights"][1]]
        [[0.35, 0.6, 0.05], [0.1, 0.23, 0.67], [0.47, 0.39, 0.14]]
    """
    if isinstance(h, bool) or h not in HEADS:
        raise ArgumentError(f"h must be 1, 2 or 4, which divide the 4 features of the example, got {h!r}. Choose one of them.")
    name, replaced = (None, None) if attack is None else _mutation(attack)
    moves = invariants("exact").values()
    with precision():
        trace = exact_trace(EXAMPLE, h, replaced)
        verdicts = {move.code: move.verdict(trace) for move in moves}
        return FiveMoves(h, name, trace, MappingProxyType(verdicts), witness(trace, {move.code: move.vacuous for move in moves}))


def _mutation(attack: str) -> tuple[str, Mapping[str, Callable[..., Any]]]:
    """The name of a mutation of the example, and the steps that it replaces."""
    known = mutations("exact")
    name = current_name(attack, known)
    if name not in known:
        raise ArgumentError(f"attack must be one of {', '.join(known)}, got {attack!r}. Leave it out for the unchanged layer.")
    (replaced,) = known[name].variants.values()
    return name, replaced


def _each(matrices: tuple[arb_mat, ...] | tuple[fmpq_mat, ...]) -> list[list[list[float]]]:
    return [floats(numbers) for numbers in matrices]


def _as_dict(verdict: MoveVerdict) -> dict[str, Any]:
    reason = verdict.why or str(verdict.decisive)
    return {"state": verdict.state, "passed": verdict.passed, "bound": verdict.bound, "reason": reason, "says": reason}  # "says": the name until 0.1

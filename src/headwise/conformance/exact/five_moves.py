"""The example that everything is shown on: 3 tokens of 4 features, with 1, 2 or 4 heads. Every matrix, and the five moves proved."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flint import arb_mat, fmpq_mat

from headwise.catalog import entries
from headwise.conformance.exact.ball_arithmetic import exact, floats, precision
from headwise.conformance.exact.exact_trace import Layer, Walk, walk
from headwise.conformance.exact.witness import witness
from headwise.conformance.invariants.invariant import Invariant, Verdict
from headwise.conformance.mutations.attack import Attack
from headwise.errors import ArgumentError

HEADS = (1, 2, 4)
EXAMPLE = Layer(
    x=exact([[2, 1, 2, -1], [0, 0, 2, -1], [1, 1, 1, 0]]),
    w_q=exact([[0, 0.5, 0, 1.5], [1.5, -1, 1.5, 0.5], [-0.5, 0, -1, -1], [0, -0.5, -1, -1.5]]),
    w_k=exact([[0, -0.5, 0.5, 0], [-1, 0.5, 0.5, -0.5], [-1, 1, 1.5, 1.5], [-1.5, -1, -0.5, 1]]),
    w_v=exact([[-1.5, 0, 1.5, -0.5], [-0.5, -1, -1, 0.5], [-1, 1, 1.5, -1], [-0.5, 0.5, 1, 0.5]]),
    w_o=exact([[1, 1.5, 0.5, 0], [-1, 0, -1, -1], [-1, -1, 1.5, -1], [-1.5, 1.5, 1, -1]]),
)
OF_A_HEAD = ("q", "k", "v", "scores", "weights", "z", "writes")
OF_ALL = ("concat", "out")
MAPS = ("w_q", "w_k", "w_v", "w_o")


@dataclass(frozen=True, eq=False)
class FiveMoves:
    """The example walked with so many heads, honestly or under an attack.

    Attributes:
        heads: H.
        attack: file name of the attack, or None.
        walk: every matrix as balls, the maps as exact fractions.
        verdicts: "M1" to "M5", each proved to hold or to fall, or vacuous.
        witness: the same by another route.
    """

    heads: int
    attack: str | None
    walk: Walk
    verdicts: Mapping[str, Verdict]
    witness: Mapping[str, Verdict]

    @property
    def fallen(self) -> tuple[str, ...]:
        """The codes of the invariants that fall."""
        return tuple(code for code, verdict in self.verdicts.items() if verdict.state == "falls")

    @property
    def holds(self) -> bool:
        """No invariant falls."""
        return not self.fallen

    @property
    def red(self) -> bool:
        """The witness saw an invariant fall, or came to another verdict."""
        return any(verdict.state == "falls" or verdict.state != self.verdicts[code].state for code, verdict in self.witness.items())

    @property
    def matrices(self) -> Mapping[str, Any]:
        """The nearest floats of every matrix, in the order of the way: [row][column], or [head][row][column] for what heads have each.

        `w_q`, `w_k`, `w_v` and `w_o` are the slices that the heads did use, lies included; `maps` has them whole.
        """
        way: dict[str, Any] = {"x": floats(self.walk.layer.x)}
        way |= {name: _each(getattr(self.walk.slices, name)) for name in MAPS}
        way |= {name: _each(getattr(self.walk, name)) for name in OF_A_HEAD}
        way |= {name: floats(getattr(self.walk, name)) for name in OF_ALL}
        return MappingProxyType(way)

    @property
    def maps(self) -> Mapping[str, list[list[float]]]:
        """The learned maps, whole, as they were before any attack."""
        return MappingProxyType({name: floats(getattr(self.walk.layer, name)) for name in MAPS})

    def as_dict(self) -> dict[str, Any]:
        """All of it in lists, strings and numbers, for JSON."""
        return {
            "heads": self.heads,
            "attack": self.attack,
            "holds": self.holds,
            "red": self.red,
            "maps": dict(self.maps),
            "matrices": dict(self.matrices),
            "verdicts": {code: _said(verdict) for code, verdict in self.verdicts.items()},
            "witness": {code: _said(verdict) for code, verdict in self.witness.items()},
        }


def five_moves(h: int, attack: str | None = None) -> FiveMoves:
    """The 3 × 4 example with h heads: every matrix, and a proof for each of the five moves.

    Proved by ball arithmetic at 128 bits: "equal" are enclosures that meet and are narrower than 1e-25, "differs" are
    enclosures that don't meet. No float is compared within a tolerance.

    Args:
        h: heads, 1, 2 or 4.
        attack: name of a file in `proof/attacks/`, told on the way; None for none.

    Raises:
        ArgumentError: another number of heads, or an attack that does not exist.

    Example:
        >>> {code: verdict.state for code, verdict in five_moves(2, attack="tie_heads").verdicts.items()}
        {'M1': 'holds', 'M2': 'holds', 'M3': 'holds', 'M4': 'holds', 'M5': 'falls'}
        >>> [[round(weight, 2) for weight in row] for row in five_moves(2).matrices["weights"][1]]
        [[0.35, 0.6, 0.05], [0.1, 0.23, 0.67], [0.47, 0.39, 0.14]]
    """
    if isinstance(h, bool) or h not in HEADS:
        raise ArgumentError(f"h must be 1, 2 or 4, which divide the 4 features of the example, got {h!r}. Choose one of them.")
    told = None if attack is None else _attack(attack)
    with precision():
        walked = walk(EXAMPLE, h, told)
        verdicts = {invariant.code: invariant.judge(walked) for invariant in invariants().values()}
        return FiveMoves(h, attack, walked, MappingProxyType(verdicts), witness(walked))


def invariants() -> Mapping[str, Invariant]:
    """M1 to M5 by file name, in their order."""
    found = {name: entry for name, entry in entries("headwise.conformance.invariants").items() if isinstance(entry, Invariant)}
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: item[1].code)))


def attacks() -> Mapping[str, Attack]:
    """Attacks on the way of the example, by file name."""
    return MappingProxyType({name: entry for name, entry in entries("headwise.conformance.mutations").items() if isinstance(entry, Attack)})


def _attack(name: str) -> Attack:
    if name not in attacks():
        raise ArgumentError(f"attack must be one of {sorted(attacks())}, got {name!r}. Leave it out for the honest layer.")
    return attacks()[name]


def _each(matrices: tuple[arb_mat, ...] | tuple[fmpq_mat, ...]) -> list[list[list[float]]]:
    return [floats(numbers) for numbers in matrices]


def _said(verdict: Verdict) -> dict[str, Any]:
    return {"state": verdict.state, "bound": verdict.bound, "says": verdict.why or str(verdict.telling)}

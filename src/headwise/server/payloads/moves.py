"""The five moves as data: every matrix and verdict with 1, 2 and 4 heads, unmodified and under each attack."""

from functools import cache
from typing import Any

from headwise.conformance.five_moves import HEADS, FiveMoves, five_moves
from headwise.conformance.invariants.invariant import invariants
from headwise.conformance.mutations.mutation import mutations


@cache
def moves_data() -> dict[str, Any]:
    """All cases; they never change. About a second, the first time."""
    cases = {h: {"": five_moves(h), **{name: five_moves(h, attack=name) for name in mutations("exact")}} for h in HEADS}
    moves = invariants("exact")
    codes = {name: entry.code for name, entry in moves.items()}
    return {
        "heads": list(HEADS),
        "moves": [{"code": entry.code, "name": name, "statement": entry.statement, "formula": entry.formula} for name, entry in moves.items()],
        "attacks": [
            {
                "name": name,
                "description": entry.description,
                "caught_by": [codes[file] for file in entry.detected_by],
                "harmless_when": entry.harmless_when,
                "breaks": {str(h): list(cases[h][name].fallen) for h in HEADS},
            }
            for name, entry in mutations("exact").items()
        ],
        "cases": {str(h): {name: _case(found) for name, found in some.items()} for h, some in cases.items()},
    }


def _case(found: FiveMoves) -> dict[str, Any]:
    """One case; bounds as text, since they may be smaller than a JavaScript number can hold."""
    case = found.as_dict()
    for side in ("verdicts", "witness"):
        for verdict in case[side].values():
            verdict["bound"] = None if verdict["bound"] is None else f"{verdict['bound']:.3g}"
    return case

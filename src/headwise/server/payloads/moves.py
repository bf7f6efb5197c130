"""The five moves as data: every matrix and verdict with 1, 2 and 4 heads, unmodified and under each attack."""

from functools import cache
from typing import Any

from headwise.conformance.five_moves import HEADS, FiveMoves, attacks, five_moves, invariants


@cache
def moves_data() -> dict[str, Any]:
    """All cases; they never change. About a second, the first time."""
    cases = {h: {"": five_moves(h), **{name: five_moves(h, attack=name) for name in attacks()}} for h in HEADS}
    codes = {name: entry.code for name, entry in invariants().items()}
    return {
        "heads": list(HEADS),
        "moves": [{"code": entry.code, "name": name, "statement": entry.statement, "formula": entry.formula} for name, entry in invariants().items()],
        "attacks": [
            {
                "name": name,
                "description": entry.lie,
                "caught_by": [codes[file] for file in entry.caught_by],
                "harmless_when": entry.blind_when,
                "breaks": {str(h): list(cases[h][name].fallen) for h in HEADS},
            }
            for name, entry in attacks().items()
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

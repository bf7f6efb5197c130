"""Writes docs/performance.md from docs/performance/*.json: `python -m docs.performance`.

The figures come from `python -m benchmarks NAME --json docs/performance/NAME.json`.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEAD = """# Performance

Ours and the peer in turn, in one process. A ratio is the median of paired ratios: below 1 ours is faster. *Processor time* is the same ratio of the time that
the cores were really at work, which other users of the machine do not lengthen (a peer whose idle threads spin looks slower in it). Goals are for a
two-core machine with AVX-512.

Generated from `docs/performance/*.json` by `python -m docs.performance`; each file is what `python -m benchmarks NAME --json FILE` wrote.
"""


def section(report: dict[str, Any]) -> str:
    """One benchmark: the machine, a row a pair, and the single numbers."""
    machine = report["machine"]
    quiet = "quiet" if machine["quiet"] else f"not quiet (others used {machine['others']:.0%} of the cores)"
    instructions = ", ".join(machine["instructions"]) or "no vector extensions"
    lines = [
        f"## `{report['name']}`",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {instructions}; torch {machine['torch']}; the machine was {quiet}.",
        "",
    ]
    if report["pairs"]:
        lines += ["| case | peer | ours | theirs | ratio | spread | processor time | goal |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
        lines += [_row(pair) for pair in report["pairs"]] + [""]
    if report["numbers"]:
        lines += ["| figure | |", "| --- | --- |", *(f"| {name} | {number:,.4g} |" for name, number in report["numbers"].items()), ""]
    return "\n".join(lines)


def _row(pair: dict[str, Any]) -> str:
    goal = "" if pair["goal"] is None else f"{pair['goal']:.2f} {'reached' if pair['reached'] else 'missed'}"
    times = f"{pair['ours_s'] * 1000:,.1f} ms | {pair['peer_s'] * 1000:,.1f} ms"
    spread = f"{pair['lowest']:.2f} to {pair['highest']:.2f}"
    return f"| {pair['case']} | {pair['peer']} | {times} | {pair['ratio']:.2f} | {spread} | {pair['busy_ratio']:.2f} | {goal} |"


def performance_page() -> str:
    """Every benchmark whose figures are kept."""
    found = [json.loads(file.read_text()) for file in sorted((HERE / "performance").glob("*.json"))]
    return HEAD + "\n" + "\n".join(section(report) for report in found)


if __name__ == "__main__":
    (HERE / "performance.md").write_text(performance_page())

"""Writes docs/findings.md from real runs: `python -m docs.findings [PEER ...]`; the peers that are installed when none is named."""

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import torch

from headwise.subjects.check import check
from headwise.subjects.find import peers
from headwise.subjects.report import Report
from headwise.subjects.telling import facts

HEAD = """# Findings

What the suite finds in the attentions of the field that were checked, each with its smallest input.
Conventions are not listed: `headwise check NAME` prints them.
Generated from runs by `python -m docs.findings`.
"""


def section(name: str, report: Report) -> str:
    """One peer: its versions, and each failure."""
    packages = {"torch", *peers()[name].needs}
    said = ", ".join(f"{package} {_version(package)}" for package in sorted(packages))
    lines = [f"## `{name}`", "", f"{peers()[name].statement} {said}. {len(report.held)} laws hold on {sum(report.held.values())} problems.", ""]
    if report.passed:
        return "\n".join([*lines, "Nothing was found.", ""])
    for failure in report.failures:
        lines += [f"### {failure.severity}: {failure.statement}", "", failure.finding.why, "", "| | |", "| --- | --- |"]
        rows = {name: value for name, value in facts(failure).items() if name not in ("why", "smallest")}
        lines += [f"| {row} | {value.replace('|', '/')} |" for row, value in rows.items()]
        lines += ["", f"Shown again by `headwise check {name} --level {report.level}`.", ""]
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return version(package.replace("_", "-"))
    except PackageNotFoundError:
        return "of unknown version"


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    chosen = names or [name for name, peer in peers().items() if all(find_spec(module) for module in peer.needs)]
    parts = [section(name, check(name, level="quick")) for name in chosen]
    left = [name for name in peers() if name not in chosen]
    if left:
        parts.append(f"Not part of this run: {', '.join(f'`{name}`' for name in left)}.\n")
    Path(__file__).with_name("findings.md").write_text("\n".join([HEAD, *parts]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

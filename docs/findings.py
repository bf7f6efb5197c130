"""Writes docs/findings.md from real runs: `python -m docs.findings [PEER ...]`, the peers that are installed when none is named.

Sections of peers that are not run stay as they are: a peer may need an environment of its own, and some take minutes.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import torch

from docs.findings_transformers import section as in_models
from headwise.conformance.adapters.resolve import peers
from headwise.conformance.check import check
from headwise.conformance.report.report import Report
from headwise.conformance.report.report_text import failure_rows

HEAD = """# Findings

What the suite finds in the attentions of the field that were checked, each with its smallest input.
Conventions are not listed: `headwise check NAME` prints them.
Generated from runs by `python -m docs.findings`.
"""


def section(name: str, report: Report) -> str:
    """One peer: its versions, and each failure."""
    packages = {"torch", *peers()[name].needs}
    said = ", ".join(f"{package} {_version(package)}" for package in sorted(packages))
    lines = [
        f"## `{name}`",
        "",
        f"{peers()[name].statement} {said}. {len(report.problems_passed)} laws hold on {sum(report.problems_passed.values())} problems.",
        "",
    ]
    if report.passed:
        return "\n".join([*lines, "Nothing was found.", ""])
    for failure in report.failures:
        lines += [f"### {failure.severity}: {failure.statement}", "", failure.finding.why, "", "| | |", "| --- | --- |"]
        rows = {name: value for name, value in failure_rows(failure).items() if name not in ("why", "smallest")}
        lines += [f"| {row} | {value.replace('|', '/')} |" for row, value in rows.items()]
        lines += ["", f"Shown again by `headwise check {name} --level {report.level}`.", ""]
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return version(package.replace("_", "-"))
    except PackageNotFoundError:
        return "of unknown version"


SHRINKING = 25.0  # seconds: more than a level has, for those that compile every shape anew
IN_MODELS = "transformers`, in models"


def sections(page: str) -> dict[str, str]:
    """What a page has of each peer, by name."""
    parts = re.split(r"^## `", re.sub(r"^Not run yet:.*$", "", page, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    return {part.splitlines()[0].removesuffix("`"): f"## `{part.rstrip()}\n" for part in parts}


def joined(found: dict[str, str]) -> str:
    """The page: peers in the order of their names, what was seen in models behind them, and who is missing."""
    missing = [name for name in peers() if name not in found]
    rest = [f"Not run yet: {', '.join(f'`{name}`' for name in missing)}.\n"] if missing else []
    return "\n".join([HEAD, *(found[name] for name in sorted(found, key=lambda name: (name not in peers(), name))), *rest])


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    page = Path(__file__).with_name("findings.md")
    for name in names or [*(name for name, peer in peers().items() if all(find_spec(module) for module in peer.needs)), "models"]:
        new = {IN_MODELS: in_models()} if name == "models" else {name: section(name, check(name, level="quick", shrinking=SHRINKING))}
        page.write_text(joined({**sections(page.read_text(encoding="utf-8")), **new}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

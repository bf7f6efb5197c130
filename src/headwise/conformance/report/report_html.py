"""A report as one self-contained HTML page: no script, no font, no link."""

from collections.abc import Mapping
from html import escape

from headwise.conformance.report.report import Failure, Report
from headwise.conformance.report.report_text import failure_rows, headline, view_suffix

STYLE = """
:root { --page: #f6f6f4; --panel: #fff; --ink: #1a1c20; --ink2: #50555e; --line: #e2e2de; --red: #b4370f; --blue: #1b5fb8 }
@media (prefers-color-scheme: dark) {
  :root { --page: #101215; --panel: #17191d; --ink: #e7e9ec; --ink2: #b0b6bf; --line: #292d33; --red: #ff9472; --blue: #7db2ff }
}
body { background: var(--page); color: var(--ink); font: 14px/20px system-ui, sans-serif; margin: 0 auto; max-width: 960px; padding: 24px 16px }
h1 { font-size: 20px; line-height: 28px } h2 { font-size: 15px } .fail h2 { color: var(--red) } h1.passed { color: var(--blue) } h1.failed { color: var(--red) }
article, section { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 12px 16px; margin: 12px 0 }
table { border-collapse: collapse; width: 100% } tr { border-top: 1px solid var(--line) } tr:first-child { border-top: 0 }
th, td { vertical-align: top; padding: 3px 0; line-height: 18px; overflow-wrap: anywhere }
th { text-align: left; color: var(--ink2); font-weight: 500; padding-right: 16px; width: 88px } section th { width: 40% }
td, pre { font: 12px/18px ui-monospace, monospace }
.why, .smallest, .like { font: inherit; line-height: 18px } .got { color: var(--red); font-weight: 600 } .expected { color: var(--blue); font-weight: 600 }
pre { overflow-x: auto; background: var(--page); border-radius: 4px; padding: 8px 12px; margin: 12px 0 4px }
a { color: var(--blue) }
"""


def to_html(report: Report) -> str:
    """The verdict, every failure with its smallest input and a test, the conventions, and what was not tested."""
    verdict = "passed" if report.passed else "failed"
    conventions = {f"{one.name}{view_suffix(one)}": f"{one.value} ({one.source}): {one.meaning}" for one in report.conventions}
    parts = [
        f'<h1 class="{verdict}">{escape(headline(report))}</h1>',
        f"<p>{escape(', '.join(f'{name} {version}' for name, version in report.versions.items()))}</p>",
        *(_failure(n, failure) for n, failure in enumerate(report.failures, 1)),
        _section("Conventions, not failures", conventions),
        _section("Passing invariants, and the number of problems", {name: str(count) for name, count in report.problems_passed.items()}),
        _section("Not tested", report.not_tested),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(report.subject)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _failure(n: int, failure: Failure) -> str:
    title = f"{n}. {failure.severity} {failure.code}: {failure.statement}"
    return f'<article class="fail"><h2>{escape(title)}</h2>{_table(failure_rows(failure))}<pre>{escape(failure.test)}</pre></article>'


def _section(title: str, rows: Mapping[str, str]) -> str:
    return f"<section><h2>{escape(title)}</h2>{_table(rows)}</section>" if rows else ""


def _table(rows: Mapping[str, str]) -> str:
    return (
        "<table>"
        + "".join(f'<tr><th>{escape(name)}</th><td class="{_kind(name)}">{escape(value)}</td></tr>' for name, value in rows.items() if value)
        + "</table>"
    )


def _kind(name: str) -> str:
    """The CSS class of a value: sentences are set as text, the actual and the expected result in different colours."""
    return {"why": "why", "smallest": "smallest", "looks like": "like", "got": "got", "expected": "expected"}.get(name, "")

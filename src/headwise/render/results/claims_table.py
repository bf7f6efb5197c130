"""The results of `hw.investigate` as cards in the terminal, as rows of a table, and as a page of Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headwise.experiments.card import VERDICTS
from headwise.experiments.card_json import up_to_date

if TYPE_CHECKING:
    from headwise.experiments.card import Card
    from headwise.experiments.investigate import ClaimResult, ClaimResults

COLUMNS = ("claim", "verdict", "number", "value", "low", "high", "unit", "means", "published")
SIGNS = {"kept": ("✓", "green"), "corrected": ("~", "yellow"), "cut": ("✗", "bold red"), "inconclusive": ("?", "cyan")}
INDENT = max(map(len, SIGNS)) + 3  # of what follows a claim's sentence


def number_rows(found: "ClaimResults") -> list[tuple[str | float | None, ...]]:
    """One row for each number of each claim, with the fields of `COLUMNS`."""
    return [
        (result.name, result.card.verdict, name, number.value, number.low, number.high, number.unit, number.means, number.published)
        for result in found
        for name, number in result.card.numbers.items()
    ]


def claim_lines(found: "ClaimResults", numbers: bool) -> Iterator[RenderableType]:
    """One card for each claim, then the count of each verdict with its meaning.

    Args:
        numbers: show every number, the definition and the rule.
    """
    for result in found:
        yield _card(result, numbers)
    for verdict, (sign, colour) in SIGNS.items():
        count = sum(result.card.verdict == verdict for result in found)
        if count:
            yield Text.assemble((f"{sign} {count} {verdict}", colour), (f"  {VERDICTS[verdict]}", "dim"))  # pyright: ignore[reportArgumentType]


def _card(result: "ClaimResult", numbers: bool) -> Group:
    card, claim = result.card, result.claim
    sign, colour = SIGNS[card.verdict]
    sentence = Text.assemble((f"{sign} {card.verdict}".ljust(INDENT), colour), (claim.sentence, "bold"), (f"  {result.name}", "dim"))
    lines: list[RenderableType] = [Text(card.correction, "bold")] if card.correction else []
    lines += [Text(card.summary), Text(f"{amount_read(card)}{claim.source}", "dim")]
    if numbers:
        lines += [Text(f"{name}: {text}", "dim") for name, text in (("definition", claim.definition), ("rule", claim.rule), ("published", claim.published))]
        lines.append(_numbers(card))
    return Group(sentence, Padding(Group(*lines), (0, 0, 1, INDENT)))


def amount_read(card: "Card") -> str:
    """The texts, tokens and loss behind a card, as the beginning of a line."""
    texts = f"{card.texts} text{'' if card.texts == 1 else 's'}, {card.tokens} tokens" if card.texts else ""
    measured = f"loss: {card.measure}" if card.measure else ""
    both = ", ".join(part for part in (texts, measured) if part)
    return f"{both}. " if both else ""


def _numbers(card: "Card") -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("number", "value", "95 %", "", "published"):
        table.add_column(name, justify="right" if name == "value" else "left", overflow="fold")
    for name, number in card.numbers.items():
        table.add_row(name, short(number.value), Text(interval(number.low, number.high), "dim"), number.unit, Text(number.published or "", "dim"))
    return table


def interval(low: float | None, high: float | None) -> str:
    """The ends of an interval; "" for an exact number."""
    return "" if low is None or high is None else f"{short(low)} … {short(high)}"


def short(value: float | None) -> str:
    """A number with four digits; a dash for None and NaN.

    Example:
        >>> short(0.123456), short(12.0), short(123456.0), short(None)
        ('0.1235', '12', '123456', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def claims_page(models: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A page of Markdown: a section for each claim with a verdict for each model, from what `headwise claims --json` printed.

    Args:
        models: the list of claims of each model, by the model's name.
    """
    models = {name: [up_to_date(claim) for claim in claims] for name, claims in models.items()}
    first = next(iter(models.values()))
    lines = [*_verdicts(models), ""]
    for place, claim in enumerate(first):
        lines += [f"## {claim['sentence']}", "", f"`{claim['name']}`. [{claim['source']}]({claim['address']}). {claim['published']}", ""]
        lines += [f"- *Definition:* {claim['definition']}", f"- *Refuted by:* {claim['refuted_by']}", f"- *Rule:* {claim['rule']}", ""]
        shown = dict(list(models.items())[: None if claim["about_model"] else 1])
        for model, claims in shown.items():
            lines += _section(model if claim["about_model"] else "models trained for this claim", claims[place])
    return "\n".join(lines).rstrip() + "\n"


def _verdicts(models: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The table of all verdicts."""
    lines = [f"| claim | {' | '.join(models)} |", f"| --- |{' --- |' * len(models)}"]
    for rows in zip(*models.values(), strict=True):
        lines.append(f"| {rows[0]['sentence']} | {' | '.join(_verdict(row) for row in rows)} |")
    return lines


def _verdict(claim: Mapping[str, Any]) -> str:
    return f"{SIGNS[claim['verdict']][0]} {claim['verdict']}"


def _section(model: str, claim: Mapping[str, Any]) -> list[str]:
    texts = f"{claim['texts']} texts, {claim['tokens']} tokens. " if claim["texts"] else ""
    measured = f"Loss: {claim['measure']}. " if claim["measure"] else ""
    correction = f" *{claim['correction']}*" if claim["correction"] else ""
    lines = [f"**{model}: {claim['verdict']}.**{correction} {claim['summary']} {texts}{measured}{claim['seconds']:.0f} s.", ""]
    if not claim["numbers"]:
        return lines
    lines += ["| number | value | 95 % | unit | published |", "| --- | ---: | --- | --- | --- |"]
    for name, number in claim["numbers"].items():
        cells = (name, short(number["value"]), interval(number["low"], number["high"]), number["unit"], number["published"] or "")
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return [*lines, ""]

"""What `hw.investigate` found, as cards, as rows, and as a page of Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from headwise.experiments.card import Card, Number
    from headwise.experiments.investigate import Claims, Told

COLUMNS = ("claim", "verdict", "number", "value", "low", "high", "unit", "means", "published")
SIGNS = {"kept": ("✓", "green"), "corrected": ("~", "yellow"), "cut": ("✗", "bold red"), "can't tell": ("?", "cyan")}


def number_rows(found: "Claims") -> list[tuple[Any, ...]]:
    """A row a number."""
    return [
        (told.name, told.card.verdict, name, number.value, number.low, number.high, number.unit, number.means, number.published)
        for told in found
        for name, number in told.card.numbers.items()
    ]


def claim_lines(found: "Claims", numbers: bool) -> Iterator[Any]:
    """A card a claim, then how many came out how.

    Args:
        numbers: show all that was measured, and how.
    """
    for told in found:
        yield _card(told, numbers)
    counts = [(verdict, sum(told.card.verdict == verdict for told in found)) for verdict in SIGNS]
    yield Text.assemble(*((f"{SIGNS[verdict][0]} {count} {verdict}   ", SIGNS[verdict][1]) for verdict, count in counts if count))


def _card(told: "Told", numbers: bool) -> Group:
    sign, colour = SIGNS[told.card.verdict]
    sentence = Text.assemble((f"{sign} {told.card.verdict:<10} ", colour), (told.claim.sentence, "bold"), (f"  {told.name}", "dim"))
    words: list[Any] = [Text(told.card.says)]
    if told.card.correction:
        words.insert(0, Text(told.card.correction, "bold"))
    words.append(Text(f"{read(told.card)}{told.claim.source}", "dim"))
    if numbers:
        words += [Text(line, "dim") for line in (f"means: {told.claim.definition}", f"rule: {told.claim.rule}", f"published: {told.claim.published}")]
        words.append(_numbers(told.card))
    return Group(sentence, Padding(Group(*words), (0, 0, 1, 13)))


def read(card: "Card") -> str:
    """How much was read for it, for a line that goes on."""
    texts = f"{card.texts} text{'' if card.texts == 1 else 's'}, {card.tokens} tokens" if card.texts else ""
    measured = f"loss: {card.measure}" if card.measure else ""
    words = ", ".join(word for word in (texts, measured) if word)
    return f"{words}. " if words else ""


def _numbers(card: "Card") -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("number", "value", "95 %", "", "published"):
        table.add_column(name, justify="right" if name == "value" else "left", overflow="fold")
    for name, number in card.numbers.items():
        table.add_row(name, plain(number.value), Text(interval(number), "dim"), number.unit, Text(number.published or "", "dim"))
    return table


def interval(number: "Number | Mapping[str, Any]") -> str:
    """The interval of a number, of a card or of its JSON; nothing where it is exact."""
    low, high = (number["low"], number["high"]) if isinstance(number, Mapping) else (number.low, number.high)
    return "" if low is None or high is None else f"{plain(low)} … {plain(high)}"


def plain(value: float | None) -> str:
    """A number with four digits, or a dash where there is none.

    Example:
        >>> plain(0.123456), plain(12.0), plain(123456.0), plain(None)
        ('0.1235', '12', '123456', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def claims_page(models: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A section a claim with a verdict for each model, from what `headwise claims --json` printed.

    Args:
        models: for each model its list of claims.
    """
    first = next(iter(models.values()))
    lines = [*_verdicts(models), ""]
    for place, claim in enumerate(first):
        lines += [f"## {claim['sentence']}", "", f"`{claim['name']}`. [{claim['source']}]({claim['address']}). {claim['published']}", ""]
        lines += [f"- *Means here:* {claim['definition']}", f"- *Would be refuted by:* {claim['refuted_by']}", f"- *Rule:* {claim['rule']}", ""]
        shown = dict(list(models.items())[: None if claim["about_model"] else 1])
        for model, claims in shown.items():
            lines += _section(model if claim["about_model"] else "trained for this", claims[place])
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
    read = f"{claim['texts']} texts, {claim['tokens']} tokens. " if claim["texts"] else ""
    measured = f"Loss: {claim['measure']}. " if claim["measure"] else ""
    correction = f" *{claim['correction']}*" if claim["correction"] else ""
    lines = [f"**{model}: {claim['verdict']}.**{correction} {claim['says']} {read}{measured}{claim['seconds']:.0f} s.", ""]
    if not claim["numbers"]:
        return lines
    lines += ["| number | value | 95 % | unit | published |", "| --- | ---: | --- | --- | --- |"]
    for name, number in claim["numbers"].items():
        cells = (name, plain(number["value"]), interval(number), number["unit"], number["published"] or "")
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return [*lines, ""]

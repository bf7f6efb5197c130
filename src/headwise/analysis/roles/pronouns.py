"""Pronouns and what they stand for, in the formats of GAP and of WinoBias.

References: Webster et al. 2018, "Mind the GAP"; Zhao et al. 2018, "Gender Bias in Coreference Resolution".
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from headwise.analysis.roles.sentences import read_file as read
from headwise.errors import ArgumentError

GAP = ("Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
PRONOUNS = frozenset(["he", "she", "they", "him", "her", "them", "his", "hers", "their", "theirs", "it", "its"])
BRACKETS = re.compile(r"\[([^\]]+)\]")


@dataclass(frozen=True)
class Pronoun:
    """A pronoun in its text; all places are the first character and the one behind the last.

    Attributes:
        right: the mention that it stands for.
        wrong: another mention, which it could stand for.
    """

    text: str
    place: tuple[int, int]
    right: tuple[int, int]
    wrong: tuple[int, int]


def read_gap(path: str | Path) -> list[Pronoun]:
    """The texts of a GAP file of which exactly one mention is meant.

    Raises:
        ArgumentError: not such a file, or a line that contradicts itself: its number is told.
    """
    rows = csv.DictReader(StringIO(read(Path(path))), delimiter="\t", quoting=csv.QUOTE_NONE)
    missing = [name for name in GAP if name not in (rows.fieldnames or ())]
    if missing:
        raise ArgumentError(f"gap must name a file with the columns of GAP, got {str(path)!r} without {', '.join(missing)}. Choose another file.")
    found = []
    for line, row in enumerate(rows, start=2):
        pronoun, a, b = (_span(str(path), line, row, name) for name in ("Pronoun", "A", "B"))
        meant = [row[f"{name}-coref"].upper() == "TRUE" for name in ("A", "B")]
        if meant[0] != meant[1]:
            found.append(Pronoun(row["Text"], pronoun, a if meant[0] else b, b if meant[0] else a))
    return found


def _span(path: str, line: int, row: dict[str, str], name: str) -> tuple[int, int]:
    word, offset = row[name], row[f"{name}-offset"]
    if not offset.isdecimal() or row["Text"][int(offset) : int(offset) + len(word)] != word:
        raise ArgumentError(f"line {line} of {path!r} must have {name} {word!r} at its offset, got {offset!r}. Mend the line.")
    return int(offset), int(offset) + len(word)


def read_winobias(paths: Iterable[str | Path]) -> list[Pronoun]:
    """Sentences with the pronoun and its mention in brackets; the other mention is one that some line of the files has in brackets.

    Raises:
        ArgumentError: a line without a mention and a pronoun in brackets: its number is told.
    """
    lines = [(str(path), place, line) for path in paths for place, line in enumerate(read(Path(path)).splitlines(), start=1) if line.strip()]
    parsed = [_bracketed(*line) for line in lines]
    people = {text[slice(*mention)].lower() for text, mention, _ in parsed}
    return [found for one in parsed if (found := _resolved(*one, people)) is not None]


def _bracketed(path: str, place: int, line: str) -> tuple[str, tuple[int, int], tuple[int, int]]:
    """The text without brackets and number, the mention, and the first pronoun that stands for it."""
    line = re.sub(r"^\d+\s+", "", line.strip())
    found = list(BRACKETS.finditer(line))
    spans = [(match.start() - 2 * i, match.end() - 2 * i - 2) for i, match in enumerate(found)]
    text = BRACKETS.sub(r"\1", line)
    pronouns = [span for span in spans if text[slice(*span)].lower() in PRONOUNS]
    mentions = [span for span in spans if span not in pronouns]
    if len(mentions) != 1 or not pronouns:
        told = f"{len(mentions)} and {len(pronouns)}"
        raise ArgumentError(f"line {place} of {path!r} must have one mention and its pronouns in [brackets], got {told}. Mend the line.")
    return text, mentions[0], pronouns[0]


def _resolved(text: str, right: tuple[int, int], pronoun: tuple[int, int], people: set[str]) -> Pronoun | None:
    """The other mention is a person of the files who is not the one meant; None where there is none, or several."""
    others = [match.span() for person in people for match in re.finditer(rf"\b{re.escape(person)}\b", text, re.IGNORECASE)]
    others = [span for span in others if span[1] <= right[0] or span[0] >= right[1]]
    return Pronoun(text, pronoun, right, others[0]) if len(others) == 1 else None

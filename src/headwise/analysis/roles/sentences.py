"""Sentences with their grammar, from a CoNLL-U file: universaldependencies.org/format.html. Needs the extra `text`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import ArgumentError, MissingPackage

COLUMNS = 10


@dataclass(frozen=True)
class Sentence:
    """A sentence.

    Attributes:
        text: as it was written.
        spans: of each word: its first character, and the one behind its last.
        heads: of each word the word that it hangs on, from 0; -1 for the root.
        relations: of each word the kind of that, without what follows a colon.
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def read_conllu(path: str | Path) -> list[Sentence]:
    """The sentences of a file.

    Raises:
        ArgumentError: the file cannot be read, or a line is broken: its number is told.
        MissingPackage: conllu is not installed.
    """
    text = read_file(Path(path))
    _check(str(path), text.splitlines())
    try:
        import conllu
    except ImportError:
        raise MissingPackage("conllu must be installed to read parsed sentences, got none. Run `pip install 'headwise[text]'`.") from None
    found = [_sentence(tokens) for tokens in conllu.parse(text) if len(tokens)]
    if not found:
        raise ArgumentError(f"conllu must name a file with sentences, got {str(path)!r}, which has none. Choose another.")
    return found


def read_file(path: Path) -> str:
    """The text of a file, or an error that says what is wrong with it."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ArgumentError(f"file must be one that can be read, got {str(path)!r} ({said}). Check the path.") from None


def _check(path: str, lines: Sequence[str]) -> None:
    """Whether every word hangs on a word of its sentence: with the line that does not, which the parser would not tell."""
    block: list[tuple[int, str, str]] = []
    for place, line in enumerate([*lines, ""], start=1):
        if line.startswith("#"):
            continue
        if not line.strip():
            _check_heads(path, block)
            block = []
            continue
        columns = line.split("\t")
        if len(columns) != COLUMNS:
            raise ArgumentError(f"line {place} of {path!r} must have {COLUMNS} columns between tabs, got {len(columns)}. Mend the line.")
        block.append((place, columns[0], columns[6]))


def _check_heads(path: str, block: Sequence[tuple[int, str, str]]) -> None:
    words = {number for _, number, _ in block if number.isdecimal()}
    for place, number, head in block:
        if number.isdecimal() and head not in words and head != "0":
            raise ArgumentError(f"line {place} of {path!r} must name a word of its sentence, or 0, as head (column 7), got {head!r}. Mend the line.")


def _sentence(tokens: Sequence[dict]) -> Sentence:
    """Words side by side as they were written; words that were written as one (du = de + le) share its span, unless they spell it."""
    text, spans = "", list[tuple[int, int]]()
    words = [token for token in tokens if isinstance(token["id"], int)]
    surface = {token["id"][0]: token for token in tokens if isinstance(token["id"], tuple) and token["id"][1] == "-"}
    index = 0
    while index < len(words):
        whole = surface.get(words[index]["id"])
        group = words[index : index + 1] if whole is None else [word for word in words if whole["id"][0] <= word["id"] <= whole["id"][2]]
        form = words[index]["form"] if whole is None else whole["form"]
        spelled = list(_spelled(form, [word["form"] for word in group], len(text)))
        spans += spelled
        text += form if _glued(whole or group[-1]) else f"{form} "
        index += len(group)
    numbers = {word["id"]: place for place, word in enumerate(words)}
    heads = tuple(numbers.get(word["head"], -1) for word in words)
    return Sentence(text.rstrip(), tuple(spans), heads, tuple(str(word["deprel"]).partition(":")[0] for word in words))


def _spelled(form: str, parts: Sequence[str], start: int) -> Iterator[tuple[int, int]]:
    """Where the parts of a written word stand; all over it where they do not spell it."""
    if "".join(parts) != form:
        yield from [(start, start + len(form))] * len(parts)
        return
    for part in parts:
        yield start, start + len(part)
        start += len(part)


def _glued(token: dict) -> bool:
    return (token["misc"] or {}).get("SpaceAfter") == "No"

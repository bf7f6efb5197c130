"""Whether texts are in the language of the annotations: by how many of their words are among the annotations' most frequent ones.

Half of the words of any language's text are its hundred most frequent words, and other languages have others.
"""

import re
from collections import Counter
from collections.abc import Sequence

from headwise.analysis.roles.pronouns import read_gap, read_winobias
from headwise.analysis.roles.sentences import read_conllu
from headwise.errors import ArgumentError
from headwise.experiments.annotated_files import Annotated

FREQUENT = 100  # words
LEAST = 0.5  # of the annotations' own share of frequent words
FEWEST = 200  # words of texts, and of annotations: fewer say nothing


def check_language(texts: Sequence[str], annotated: Annotated) -> None:
    """Compare the texts with each file.

    Raises:
        ArgumentError: they are in another language.
    """
    asked = _words(texts)
    for path, written in _written(annotated).items():
        own = _words(written)
        if min(len(asked), len(own)) < FEWEST:
            continue
        half = len(own) // 2
        known = {word for word, _ in Counter(own[:half]).most_common(FREQUENT)}
        usual, here = _share(own[half:], known), _share(asked, known)
        if here < LEAST * usual:
            raise ArgumentError(
                f"texts must be in the language of {path!r}, got texts of which {here:.0%} are its frequent words, where it has {usual:.0%} itself. "
                "Give texts in its language, or leave it out."
            )


def _written(annotated: Annotated) -> dict[str, list[str]]:
    """The text of each file."""
    found = {}
    if annotated.conllu is not None:
        found[str(annotated.conllu)] = [sentence.text for sentence in read_conllu(annotated.conllu)]
    if annotated.gap is not None:
        found[str(annotated.gap)] = [pronoun.text for pronoun in read_gap(annotated.gap)]
    for path in annotated.winobias:
        found[str(path)] = [pronoun.text for pronoun in read_winobias([path])]
    return found


def _words(texts: Sequence[str]) -> list[str]:
    return [word.casefold() for text in texts for word in re.findall(r"\w+", text)]


def _share(words: Sequence[str], known: set[str]) -> float:
    return sum(word in known for word in words) / len(words)

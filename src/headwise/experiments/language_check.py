"""Check that texts are in the language of the annotations, by the share of the annotations' most frequent words among theirs.

The hundred most frequent words of a language make up about half of its text, and another language has other ones.
"""

import re
from collections import Counter
from collections.abc import Sequence

from headwise.analysis.roles.pronouns import read_gap, read_winobias
from headwise.analysis.roles.sentences import read_conllu
from headwise.errors import ArgumentError
from headwise.experiments.annotation_files import AnnotationFiles

FREQUENT = 100  # words
LEAST = 0.5  # of the annotations' own share of frequent words
FEWEST = 200  # words of texts, and of annotations: fewer are not judged


def check_language(texts: Sequence[str], annotations: AnnotationFiles) -> None:
    """Compare the texts with each annotation file.

    Raises:
        ArgumentError: the texts are in another language.
    """
    given = _words(texts)
    for path, annotated in _annotated_texts(annotations).items():
        own = _words(annotated)
        if min(len(given), len(own)) < FEWEST:
            continue
        half = len(own) // 2
        frequent = {word for word, _ in Counter(own[:half]).most_common(FREQUENT)}
        usual, here = _share(own[half:], frequent), _share(given, frequent)
        if here < LEAST * usual:
            raise ArgumentError(
                f"The texts must be in the language of {path!r}. Its most frequent words make up {usual:.0%} of it, but only {here:.0%} of the texts. "
                "Give texts in its language, or leave the file out."
            )


def _annotated_texts(annotations: AnnotationFiles) -> dict[str, list[str]]:
    """The text of each file."""
    found = {}
    if annotations.conllu is not None:
        found[str(annotations.conllu)] = [sentence.text for sentence in read_conllu(annotations.conllu)]
    if annotations.gap is not None:
        found[str(annotations.gap)] = [pronoun.text for pronoun in read_gap(annotations.gap)]
    for path in annotations.winobias:
        found[str(path)] = [pronoun.text for pronoun in read_winobias([path])]
    return found


def _words(texts: Sequence[str]) -> list[str]:
    return [word.casefold() for text in texts for word in re.findall(r"\w+", text)]


def _share(words: Sequence[str], known: set[str]) -> float:
    return sum(word in known for word in words) / len(words)

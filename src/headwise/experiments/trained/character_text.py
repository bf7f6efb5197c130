"""Text as letters: an alphabet, training text and held-out text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headwise.axes import Int, Tensor

RARE = 20  # letters that come less often are left out
APART = 20  # every 20th chapter is held out


@dataclass(frozen=True, eq=False)
class CharacterText:
    """A text as numbers of letters.

    Attributes:
        alphabet: the letters, by their numbers.
        train: what is trained on, one after another.
        held: what is held out, likewise.
    """

    alphabet: Sequence[str]
    train: Int[Tensor, " n"]
    held: Int[Tensor, " m"]

    def batch(self, rows: int, length: int, generator: torch.Generator) -> Int[Tensor, "B T"]:
        """Pieces of the training text, drawn at random."""
        starts = torch.randint(len(self.train) - length, (rows,), generator=generator)
        return self.train[starts[:, None] + torch.arange(length)]

    def windows(self, count: int, length: int) -> Int[Tensor, "B T"]:
        """Pieces of the held-out text, spread evenly over it."""
        starts = torch.arange(count) * ((len(self.held) - length) // count)
        return self.held[starts[:, None] + torch.arange(length)]


def character_text(text: str) -> CharacterText:
    """From a text with a chapter a line.

    Example:
        >>> found = character_text("abba abba\\n" * 40)
        >>> "".join(found.alphabet), len(found.train), len(found.held)
        ('\\n ab', 380, 20)
    """
    alphabet = sorted(letter for letter, times in Counter(text).items() if times >= RARE)
    chapters = [f"{chapter}\n" for chapter in text.splitlines()]
    parts = ["".join(chapter for place, chapter in enumerate(chapters) if (place % APART == APART - 1) == held) for held in (False, True)]
    train, held = (_numbers(part, alphabet) for part in parts)
    return CharacterText(alphabet, train, held)


def _numbers(text: str, alphabet: Sequence[str]) -> Int[Tensor, " n"]:
    """Of each letter its place in the alphabet; others are left out."""
    letters, known = (np.frombuffer("".join(some).encode("utf-32-le"), np.uint32) for some in (text, alphabet))
    places = np.searchsorted(known, letters).clip(max=len(known) - 1)
    return torch.from_numpy(places[known[places] == letters])

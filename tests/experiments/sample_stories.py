"""Texts that the toys' tokenizers know."""

from random import Random

from headwise.analysis.roles import random_prose as prose


def stories(count: int, sentences: int = 3) -> list[str]:
    return [prose.text(Random(number), sentences) for number in range(count)]

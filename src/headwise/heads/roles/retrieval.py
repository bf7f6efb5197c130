"""Finding a needle in filler text."""

from collections.abc import Iterator, Sequence

import torch

from headwise.heads import prose
from headwise.heads.guesses import offsets, uniform, visible
from headwise.heads.material import Material
from headwise.heads.reading import longest
from headwise.heads.role import Questions, Reading, Role
from headwise.heads.words import tokens_of

TEXTS, SENTENCES, DIGITS = 32, (6, 18), 5
NAMES = ("Berlin", "Tokyo", "Paris", "Cairo", "Lima", "Oslo", "Rome", "Delhi")


def read(model, material: Material) -> Iterator[Reading]:
    """The number is told somewhere, and asked for at the end. A model that sees ahead gets its mask in place of the answer."""
    random, mask = material.random(), getattr(model.tokenizer, "mask_token_id", None)
    if material.ahead and mask is None:
        return
    for _ in range(min(TEXTS, material.limit)):
        sentences = [prose.sentence(random) for _ in range(random.randint(*SENTENCES))]
        name, number = random.choice(NAMES), "".join(random.choice("0123456789") for _ in range(DIGITS))
        told = f"The secret number of {name} is {number}."
        sentences.insert(random.randrange(len(sentences)), told)
        text = f"{' '.join(sentences)} What is the secret number of {name}? The secret number of {name} is {number}."
        first, second = text.index(number), text.rindex(number)
        ids, (needle, answer) = tokens_of(model.tokenizer, text, [(first, first + DIGITS), (second, second + DIGITS)])
        if len(needle) == len(answer) and len(ids) <= longest(model):
            yield _reading(ids, needle, answer, mask if material.ahead else None, material.ahead)


def _reading(ids: list[int], needle: Sequence[int], answer: Sequence[int], mask: int | None, ahead: bool) -> Reading:
    """What asks is the token that foretells a piece of the answer: the one before it, or the mask in its place."""
    given = torch.tensor([ids])
    if mask is not None:
        given[0, list(answer)] = mask
    query = torch.tensor(answer) - int(mask is None)
    right = torch.arange(len(ids)) == torch.tensor(needle)[:, None]
    among = visible(query, len(ids), ahead)
    guesses = {**offsets(query, right, range(-len(ids), 0)), "uniform": uniform(right, among)}
    return Reading(given, [Questions("the needle's next piece", query, right, among, guesses)])


ENTRY = Role(
    definition="when a number is asked for, looks at the piece of it that comes next, wherever in the text it was told",
    source="Wu et al. 2024, retrieval heads: most of the weight on the token that is to be copied",
    baseline="the best fixed offset; the same weight everywhere",
    hit=True,
    read=read,
)

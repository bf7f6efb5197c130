"""What roles are looked for in: texts, parsed sentences, resolved pronouns, aligned pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.analysis.roles.pronouns import Pronoun
    from headwise.analysis.roles.sentences import Sentence


@dataclass(frozen=True, eq=False)
class AlignedPairs:
    """An input, and which of its parts belong together.

    Attributes:
        what: as `model.run` takes it.
        keys: how many tokens there are to look at.
        pairs: tokens that ask, with the tokens that they should look at.
        among: tokens that may be chosen; all when absent.
        task: what is aligned.
    """

    what: Any
    keys: int
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
    among: Sequence[int] | None = None
    task: str = "alignment"


@dataclass(frozen=True, eq=False)
class Corpus:
    """What the roles are to be looked for in.

    Attributes:
        texts: of any length.
        sentences: with their grammar.
        pronouns: with what they stand for.
        aligned: pairs, for attention to another sequence or across an arrow.
        relations: only these relations of the grammar; all that are frequent when empty.
        ahead: whether the model sees what comes after a token.
        limit: texts for each role, at most.
        seed: of what is drawn at random.
    """

    texts: Sequence[str] = ()
    sentences: "Sequence[Sentence]" = ()
    pronouns: "Sequence[Pronoun]" = ()
    aligned: Sequence[AlignedPairs] = ()
    relations: Sequence[str] = ()
    ahead: bool = False
    limit: int = 400
    seed: int = 0

    def random(self) -> Random:
        return Random(self.seed)

    def some(self, items: Sequence[Any]) -> Sequence[Any]:
        """As many as the limit allows, drawn at random, in their order."""
        if len(items) <= self.limit:
            return items
        return [items[i] for i in sorted(self.random().sample(range(len(items)), self.limit))]

"""What a role is: questions of where a token should look, and what a simpler rule would answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwise.axes import Bool, Float, Int, Tensor

if TYPE_CHECKING:
    from headwise.analysis.roles.corpus import Corpus
    from headwise.models.model import Model


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions of one task about one text. A unit is a word or a token; query i of them should look at the units `right[i]`.

    Attributes:
        task: what is asked, such as "det → noun".
        query: the unit that asks.
        right: the units that count as right.
        among: the units that a head may choose from; what it gives to others does not count when the largest is chosen.
        guesses: what each simpler rule would score, from 0 to 1.
        rival: units that a head must prefer the right ones to, each compared by weight a unit; None where there are none.
    """

    task: str
    query: Int[Tensor, " n"]
    right: Bool[Tensor, "n S"]
    among: Bool[Tensor, "n S"]
    guesses: Mapping[str, Float[Tensor, " n"]]
    rival: Bool[Tensor, "n S"] | None = None


@dataclass(frozen=True, eq=False)
class Reading:
    """What the model reads at once.

    Attributes:
        given: as `model.run` takes it.
        units: the tokens of each unit that asks; None where a unit is a token.
        key_units: likewise of the units that are asked; those of `units` where absent.
    """

    given: Any
    units: Sequence[Sequence[int]] | None = field(default=None, kw_only=True)
    key_units: Sequence[Sequence[int]] | None = field(default=None, kw_only=True)


Ask = Callable[[Any], Sequence[Questions]]  # all that is asked about one reading


@dataclass(frozen=True)
class Role:
    """Something that a head may do.

    Attributes:
        definition: what the head does, in a sentence.
        source: who described it first, or best.
        baseline: the simpler rules that it must beat.
        hit: a question counts 1 where the largest weight is on a right unit; else it counts the weight on the right units.
        read: what is read, made from the material that the user has given. Roles with the same function share the passes of the model.
        ask: makes what asks about each reading.
        needs: what the material must hold; empty where texts are made at random.
        cross: it is about attention to another sequence.
    """

    definition: str
    source: str
    baseline: str
    hit: bool
    read: "Callable[[Model, Corpus], Iterable[Reading]]"
    ask: "Callable[[Model, Corpus], Ask]"
    needs: str = ""
    cross: bool = False

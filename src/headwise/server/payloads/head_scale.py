"""One edit of the page: a head whose output z is multiplied by a factor."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.errors import ArgumentError

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place


@dataclass(frozen=True)
class HeadScale:
    """A head whose output z is multiplied by `scale` before W_O."""

    part: str
    layer: int
    head: int
    scale: float

    @property
    def place(self) -> tuple[str, int, int]:
        return self.part, self.layer, self.head


def find_place(run: "Run", part: str, layer: int, head: int) -> "Place":
    """The attention call that a head belongs to.

    Raises:
        ArgumentError: the model has no such head.
    """
    found = next((place for place in run.places if (place.part, place.layer) == (part, layer)), None)
    if found is None or not 0 <= head < found.heads:
        raise ArgumentError(f"The model has no head {head} in layer {layer} of part {part[:40]!r}. Choose another.")
    return found

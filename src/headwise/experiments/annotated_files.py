"""Files in which somebody wrote down what is what: grammar, and what pronouns stand for. Each may be absent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Annotated:
    """Annotation files.

    Attributes:
        conllu: parsed sentences.
        gap: pronouns, in the format of GAP.
        winobias: pronouns, in the format of WinoBias.
    """

    conllu: Path | None = None
    gap: Path | None = None
    winobias: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """All that there are."""
        return (*(path for path in (self.conllu, self.gap) if path is not None), *self.winobias)


def annotated(conllu: str | Path | None = None, gap: str | Path | None = None, winobias: str | Path | Sequence[str | Path] = ()) -> Annotated:
    """The files as they were named; they are read, and refused, by those who need them."""
    several = [winobias] if isinstance(winobias, str | Path) else winobias
    return Annotated(None if conllu is None else Path(conllu), None if gap is None else Path(gap), tuple(map(Path, several)))

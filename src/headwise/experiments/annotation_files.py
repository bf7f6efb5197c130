"""Files with annotated text: parsed sentences and resolved pronouns. Each may be absent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class AnnotationFiles:
    """Paths of annotation files.

    Attributes:
        conllu: parsed sentences, in CoNLL-U.
        gap: resolved pronouns, in the GAP format.
        winobias: resolved pronouns, in the WinoBias format.
    """

    conllu: Path | None = None
    gap: Path | None = None
    winobias: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """All paths that were given."""
        return (*(path for path in (self.conllu, self.gap) if path is not None), *self.winobias)


def annotation_files(conllu: str | Path | None = None, gap: str | Path | None = None, winobias: str | Path | Sequence[str | Path] = ()) -> AnnotationFiles:
    """The paths as given; whoever needs a file reads it, and reports one that cannot be read."""
    several = [winobias] if isinstance(winobias, str | Path) else winobias
    return AnnotationFiles(None if conllu is None else Path(conllu), None if gap is None else Path(gap), tuple(map(Path, several)))

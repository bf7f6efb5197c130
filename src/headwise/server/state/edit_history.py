"""The edits of one model in one session: a list that can be undone."""

from dataclasses import dataclass

from headwise.errors import ArgumentError

EDITS = 64


@dataclass(frozen=True)
class Edit:
    """A head that says `scale` times what it says."""

    part: str
    layer: int
    head: int
    scale: float

    @property
    def place(self) -> tuple[str, int, int]:
        return self.part, self.layer, self.head


class History:
    """Lists of edits, one after the other; undo goes back, redo forth.

    Example:
        >>> history = History()
        >>> history.put(Edit("self", 3, 5, 0.0))
        >>> history.undo(), history.edits
        (None, ())
    """

    def __init__(self) -> None:
        self.past: list[tuple[Edit, ...]] = []
        self.edits: tuple[Edit, ...] = ()
        self.future: list[tuple[Edit, ...]] = []

    def put(self, edit: Edit) -> None:
        """Add an edit; the same head's earlier one goes, and with scale 1 the new one too.

        Raises:
            ArgumentError: there are too many.
        """
        others = tuple(one for one in self.edits if one.place != edit.place)
        edits = others if edit.scale == 1 else (*others, edit)
        if len(edits) > EDITS:
            raise ArgumentError(f"edits must be at most {EDITS}, got one more. Take some away, or save what there is.")
        self._become(edits)

    def drop(self, place: tuple[str, int, int] | None) -> None:
        """Take one head's edit away, or all."""
        self._become(() if place is None else tuple(one for one in self.edits if one.place != place))

    def undo(self) -> None:
        """Back to the list before.

        Raises:
            ArgumentError: there is none.
        """
        if not self.past:
            raise ArgumentError("undo must have an edit to take back, got none. Make one first.")
        self.future.append(self.edits)
        self.edits = self.past.pop()

    def redo(self) -> None:
        """Forth to the list that was undone.

        Raises:
            ArgumentError: there is none.
        """
        if not self.future:
            raise ArgumentError("redo must have an edit that was undone, got none. Undo one first.")
        self.past.append(self.edits)
        self.edits = self.future.pop()

    def _become(self, edits: tuple[Edit, ...]) -> None:
        if edits == self.edits:
            return
        self.past.append(self.edits)
        self.edits, self.future = edits, []

"""The edits of one model in one session, with undo and redo."""

from headwise.errors import ArgumentError
from headwise.server.payloads.head_scale import HeadScale

MAX_EDITS = 64


class EditHistory:
    """The current list of edits, the lists before it and those that were undone.

    Example:
        >>> history = EditHistory()
        >>> history.put(HeadScale("self", 3, 5, 0.0))
        >>> history.undo(), history.edits
        (None, ())
    """

    def __init__(self) -> None:
        self.past: list[tuple[HeadScale, ...]] = []
        self.edits: tuple[HeadScale, ...] = ()
        self.future: list[tuple[HeadScale, ...]] = []

    def put(self, edit: HeadScale) -> None:
        """Add an edit in place of an earlier one of the same head; a scale of 1 only removes that one.

        Raises:
            ArgumentError: there are too many.
        """
        others = tuple(one for one in self.edits if one.place != edit.place)
        edits = others if edit.scale == 1 else (*others, edit)
        if len(edits) > MAX_EDITS:
            raise ArgumentError(f"There can be at most {MAX_EDITS} edits. Remove some, or save what there is.")
        self._replace(edits)

    def drop(self, place: tuple[str, int, int] | None) -> None:
        """Remove the edit of one head, or all edits."""
        self._replace(() if place is None else tuple(one for one in self.edits if one.place != place))

    def undo(self) -> None:
        """Return to the list before.

        Raises:
            ArgumentError: there is none.
        """
        if not self.past:
            raise ArgumentError("There is no edit to undo. Make one first.")
        self.future.append(self.edits)
        self.edits = self.past.pop()

    def redo(self) -> None:
        """Return to the list that was undone last.

        Raises:
            ArgumentError: there is none.
        """
        if not self.future:
            raise ArgumentError("There is no edit to redo. Undo one first.")
        self.past.append(self.edits)
        self.edits = self.future.pop()

    def _replace(self, edits: tuple[HeadScale, ...]) -> None:
        if edits == self.edits:
            return
        self.past.append(self.edits)
        self.edits, self.future = edits, []

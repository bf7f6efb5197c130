"""A verdict: what was claimed, how far off it was at worst, and what rounding allows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """One thing that was verified.

    Attributes:
        name: rows, hidden, output, statistics, writes or model.
        sentence: what is claimed.
        holds: None where it could not be judged; the sentence says why.
        residual: the largest difference that was found.
        allowed: what rounding allows where that difference was found.
        place: where it was found.
    """

    name: str
    sentence: str
    holds: bool | None
    residual: float | None = None
    allowed: float | None = None
    place: str = ""

    def __str__(self) -> str:
        mark = {True: "holds", False: "FAILS", None: "not judged"}[self.holds]
        if self.residual is None:
            return f"{mark}: {self.sentence}"
        at = f" at {self.place}" if self.place and not self.holds else ""
        return f"{mark}: {self.sentence} (off by {self.residual:.2g}, rounding allows {self.allowed:.2g}{at})"


class Worst:
    """Keeps the difference that uses up most of what rounding allows."""

    def __init__(self, name: str, sentence: str) -> None:
        self.name, self.sentence = name, sentence
        self.count = 0
        self.use = -1.0
        self.residual = self.allowed = 0.0
        self.place = ""

    def see(self, residual: float, allowed: float, place: str) -> None:
        """One more difference; NaN counts as the largest."""
        self.count += 1
        use = residual / allowed if allowed else (0.0 if residual == 0 else float("inf"))
        if use != use:
            use = float("inf")
        if use > self.use:
            self.use, self.residual, self.allowed, self.place = use, residual, allowed, place

    def verdict(self, unless: str = "") -> Verdict:
        """The verdict; `unless` says why nothing was seen, where nothing was."""
        if not self.count:
            return Verdict(self.name, f"{self.sentence}: {unless or 'there is nothing to judge'}", None)
        return Verdict(self.name, self.sentence, self.use <= 1, self.residual, self.allowed, self.place)

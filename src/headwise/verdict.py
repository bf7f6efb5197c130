"""The verdict on one check, and a report's verdicts by name."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from headwise.deprecation import warn
from headwise.errors import ArgumentError


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check: what is claimed, the largest error found, and the error that rounding allows.

    Attributes:
        name: of the check, such as "rows" or "model".
        sentence: the claim; where it could not be checked, also the reason.
        passed: None where it could not be checked.
        residual: the error closest to, or furthest beyond, what rounding allows; None where nothing was measured.
        allowed: the error that rounding allows at the same place.
        place: where that error was found.

    Example:
        >>> print(Verdict("rows", "every row of weights adds up to 1", True, 2e-7, 4e-6))
        passed: every row of weights adds up to 1 (off by 2e-07, rounding allows 4e-06)
    """

    name: str
    sentence: str
    passed: bool | None
    residual: float | None = None
    allowed: float | None = None
    place: str = ""

    @property
    def holds(self) -> bool | None:
        """Deprecated: `passed`."""
        warn("Verdict.holds", "passed")
        return self.passed

    def to_json(self) -> dict[str, Any]:
        """Its fields; `holds` is the name that `passed` had before, kept for one release."""
        return {**asdict(self), "holds": self.passed}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Verdict":
        """The verdict whose fields were written, by this release or an earlier one.

        Example:
            >>> Verdict.from_json({"name": "rows", "sentence": "", "holds": True}).passed
            True
        """
        values = dict(fields)
        before = values.pop("holds", None)
        return cls(**{"passed": before, **values})

    def __str__(self) -> str:
        outcome = {True: "passed", False: "FAILED", None: "not checked"}[self.passed]
        if self.residual is None:
            return f"{outcome}: {self.sentence}"
        at = f" at {self.place}" if self.place and not self.passed else ""
        return f"{outcome}: {self.sentence} (off by {self.residual:.2g}, rounding allows {self.allowed:.2g}{at})"


V = TypeVar("V", bound=Verdict)


class Verdicts(Mapping[str, V]):
    """The verdicts of one report by name, in the order of the checks. Reading one by its position is deprecated.

    Example:
        >>> verdicts = Verdicts([Verdict("rows", "rows add up to 1", True), Verdict("model", "same outputs", None)])
        >>> list(verdicts), verdicts["rows"].passed, verdicts.passed
        (['rows', 'model'], True, True)
    """

    def __init__(self, verdicts: Iterable[V]) -> None:
        self._by_name: dict[str, V] = {}
        for verdict in verdicts:
            if verdict.name in self._by_name:
                raise ArgumentError(f"Two verdicts have the name {verdict.name!r}. Give each check a name of its own.")
            self._by_name[verdict.name] = verdict

    @property
    def passed(self) -> bool:
        """Whether no check failed; a check that could not be made counts as neither."""
        return all(verdict.passed is not False for verdict in self.values())

    def __getitem__(self, name: str | int) -> V:
        if isinstance(name, int):
            found = list(self._by_name.values())[name]
            warn(f"verdicts[{name}]", f"verdicts[{found.name!r}]")
            return found
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __hash__(self) -> int:
        return hash(tuple(self.values()))

    def __repr__(self) -> str:
        return f"Verdicts({list(self.values())!r})"

    def __str__(self) -> str:
        return "\n".join(str(verdict) for verdict in self.values())


class WorstCase:
    """Of many measured errors, the one that is largest relative to what rounding allows.

    Example:
        >>> worst = WorstCase("rows", "every row adds up to 1")
        >>> worst.add(1e-7, 1e-6, "row 0")
        >>> worst.add(5e-6, 1e-6, "row 1")
        >>> print(worst.verdict())
        FAILED: every row adds up to 1 (off by 5e-06, rounding allows 1e-06 at row 1)
    """

    def __init__(self, name: str, sentence: str) -> None:
        self.name, self.sentence = name, sentence
        self.count = 0
        self.ratio = -1.0
        self.residual = self.allowed = 0.0
        self.place = ""

    def add(self, residual: float, allowed: float, place: str) -> None:
        """Take one more error into account; NaN counts as the largest."""
        self.count += 1
        ratio = residual / allowed if allowed else (0.0 if residual == 0 else float("inf"))
        if ratio != ratio:
            ratio = float("inf")
        if ratio > self.ratio:
            self.ratio, self.residual, self.allowed, self.place = ratio, residual, allowed, place

    def verdict(self, if_none: str = "there is nothing to check") -> Verdict:
        """The verdict on the errors added so far.

        Args:
            if_none: the reason to give where no error was added.
        """
        if not self.count:
            return Verdict(self.name, f"{self.sentence}: {if_none}", None)
        return Verdict(self.name, self.sentence, self.ratio <= 1, self.residual, self.allowed, self.place)

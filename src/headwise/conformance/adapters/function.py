"""A function called like `hw.attend` as a subject: its signature read, its conventions declared or probed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from headwise.conformance.adapters.argument_adapter import Dialect, is_packed
from headwise.conformance.adapters.attention_call import DTYPES, CallSubject
from headwise.conformance.adapters.convention_probe import Stated, abilities, asked, fits, numbers, plain, refusals, settle, usable_dtypes
from headwise.conformance.adapters.signature import bound
from headwise.conformance.adapters.subject import ABILITIES, OPTIONS, Subject
from headwise.conformance.problems.answer import Answer, How
from headwise.conformance.problems.conventions import Conventions

# Not `key_heads`: query heads that take key heads in turn are right only where a model was trained so, and then it is declared.
TELLING = ("layout", "mask_polarity", "corner", "window_counts_own", "dead_row", "hidden_nonfinite")
NO_MASK = "packed texts know no mask but their lengths"


@dataclass(frozen=True, eq=False)
class Found:
    """A subject, ready to be judged.

    Attributes:
        subject: itself.
        conventions: what it means, and how that is known.
        not_tested: by option or ability: why it is not.
    """

    subject: Subject
    conventions: tuple[Stated, ...]
    not_tested: Mapping[str, str]


def of_function(function: Callable[..., Any], name: str, declared: Mapping[str, Any], dtype: torch.dtype | None = None, device: str | None = None) -> Found:
    """Learn how to speak to a function.

    Args:
        declared: conventions by name; the others are probed.

    Raises:
        ArgumentTypeError, ArgumentError: as `binding.bound`.
    """
    binding = bound(function, name)
    layout = {"layout": "packed"} if is_packed(binding) else {}
    dialect = Dialect(binding, replace(Conventions(), **{**layout, **declared}))
    words = {option for option in OPTIONS if option in binding.words} | ({"mask"} if is_packed(binding) else set())
    dtypes = (dtype,) if dtype is not None else DTYPES
    subject = _spoken(dialect, name, frozenset(words), dtypes, torch.device(device or "cpu"))
    if isinstance(asked(subject, plain()), Exception):  # it may take other dtypes only
        subject = replace(subject, dtypes=usable_dtypes(subject, dtypes) or dtypes)
    fields = tuple(field for field in TELLING if not (is_packed(binding) and field in ("layout", "mask_polarity")))

    lacks: dict[str, str] = {}
    subject, early = settle(subject, _speaking, [field for field in fields if field == "layout"], frozenset(declared))
    for ability, why in abilities(subject):
        lacks |= {} if why is None else {ability: why}
    subject = replace(subject, honours=subject.honours | (frozenset(ABILITIES) - frozenset(lacks)))
    lacks |= dict(refusals(subject))
    subject = replace(subject, honours=subject.honours - frozenset(lacks))
    subject = _with_planes(subject, binding.words)
    subject, late = settle(subject, _speaking, [field for field in fields if field != "layout"], frozenset(declared))
    subject, weights = _weights(subject, frozenset(declared))
    usable = usable_dtypes(subject, dtypes)
    lacks = {option: "its signature has no such argument" for option in OPTIONS if option not in subject.honours} | lacks
    lacks |= {str(kind).removeprefix("torch."): "it raises, or answers in another dtype" for kind in dtypes if kind not in usable}
    conventions = {stated.name: stated for stated in (*early, *late, *weights)}
    return Found(replace(subject, dtypes=usable or dtypes[:1]), tuple(conventions.values()), lacks)


def _spoken(dialect: Dialect, name: str, honours: frozenset[str], dtypes: tuple[torch.dtype, ...], device: torch.device) -> CallSubject:
    spelled = dialect.spelled if ":" in name and "<" not in name and dialect.conventions.layout != "packed" else None
    return CallSubject(name, Talk(dialect), honours, dialect.conventions, dtypes, device, spelled=spelled)


@dataclass(frozen=True, eq=False)
class Talk:
    """A dialect that is spoken; kept, so that it can be changed while the subject's meaning is being found."""

    dialect: Dialect

    def __call__(self, problem: Any, how: How) -> Answer:
        return self.dialect.compute(problem, how)


def _speaking(subject: CallSubject, conventions: Conventions, **changes: Any) -> CallSubject:
    dialect = replace(subject.compute.dialect, conventions=conventions, **changes)
    return _spoken(dialect, subject.name, subject.honours, subject.dtypes, subject.device)


def _with_planes(subject: CallSubject, words: Mapping[str, str]) -> CallSubject:
    """Whether a mask may be bool, and whether a bias goes where the mask goes."""
    if "mask" not in words:
        return subject
    asking = plain(mask=torch.arange(5).expand(1, 1, 3, 5) > 1)
    if isinstance(asked(subject, asking), Exception):
        floats = _speaking(subject, subject.conventions, bool_masks=False)
        subject = floats if fits(floats, asking) else subject
    if "bias" not in words:
        wider = _speaking(replace(subject, honours=subject.honours | {"bias"}), subject.conventions, bias_in_mask=True)
        if fits(wider, plain(bias=numbers(1, 1, 3, 5, seed=4))):
            return wider
    return subject


def _weights(subject: CallSubject, declared: frozenset[str]) -> tuple[CallSubject, list[Stated]]:
    """How weights are given back."""
    got = asked(subject, plain(), How(weights=True))
    given = "never"
    if isinstance(got, Answer) and got.weights is not None:
        given = "averaged" if got.weights.dim() == 3 else "per head"
    found = [] if "weights" in declared else [Stated("weights", given, "probed")]
    changes = {stated.name: stated.value for stated in found}
    if given != "never" and "dropout" in subject.honours and "weights_after_dropout" not in declared:
        got = asked(subject, plain(dropout=0.5), How(weights=True, training=True))
        if isinstance(got, Answer) and got.weights is not None:
            after = bool(((got.weights.detach().double().sum(-1) - 1).abs() > 1e-3).any())
            found.append(Stated("weights_after_dropout", after, "probed"))
            changes["weights_after_dropout"] = after
    return _speaking(subject, replace(subject.conventions, **changes)), found

"""A function called like `hw.attend` as a subject: its signature read, its conventions declared or probed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from headwise.conformance.adapters.argument_adapter import ArgumentAdapter, is_packed
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.convention_probe import (
    ResolvedConvention,
    is_correct,
    missing_abilities,
    probe,
    probe_conventions,
    probe_problem,
    random_numbers,
    unsupported_options,
    usable_dtypes,
)
from headwise.conformance.adapters.signature import bind
from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.capabilities import ABILITIES, DTYPES, OPTIONS
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.subject import Subject

# Without `key_heads`: key/value heads in turn are correct only for a model that was trained so, and then it is declared.
PROBED = ("layout", "mask_polarity", "corner", "window_counts_own", "dead_row", "hidden_nonfinite")


@dataclass(frozen=True, eq=False)
class ResolvedSubject:
    """An implementation, ready to be checked.

    Attributes:
        subject: the implementation.
        conventions: its conventions, and how they are known.
        not_tested: why each option or ability that it lacks is not tested.
    """

    subject: Subject
    conventions: tuple[ResolvedConvention, ...]
    not_tested: Mapping[str, str]


def adapt_function(
    function: Callable[..., Any], name: str, declared: Mapping[str, Any], dtype: torch.dtype | None = None, device: str | None = None
) -> ResolvedSubject:
    """Learn how a function is called, what it supports and what its conventions are.

    Args:
        declared: conventions by name; the others are probed.

    Raises:
        ArgumentTypeError, ArgumentError: as `signature.bind`.
    """
    binding = bind(function, name)
    layout = {"layout": "packed"} if is_packed(binding) else {}
    adapter = ArgumentAdapter(binding, replace(Conventions(), **{**layout, **declared}))
    options = {option for option in OPTIONS if option in binding.option_names} | ({"mask"} if is_packed(binding) else set())
    dtypes = (dtype,) if dtype is not None else DTYPES
    subject = _subject(adapter, name, frozenset(options), dtypes, torch.device(device or "cpu"))
    if isinstance(probe(subject, probe_problem()), Exception):  # it may take other dtypes only
        subject = replace(subject, dtypes=usable_dtypes(subject, dtypes) or dtypes)
    fields = tuple(field for field in PROBED if not (is_packed(binding) and field in ("layout", "mask_polarity")))

    lacks: dict[str, str] = {}
    subject, early = probe_conventions(subject, _with_conventions, [field for field in fields if field == "layout"], frozenset(declared))
    for ability, why in missing_abilities(subject):
        lacks |= {} if why is None else {ability: why}
    subject = replace(subject, supports=subject.supports | (frozenset(ABILITIES) - frozenset(lacks)))
    lacks |= dict(unsupported_options(subject))
    subject = replace(subject, supports=subject.supports - frozenset(lacks))
    subject = _with_mask_types(subject, binding.option_names)
    subject, late = probe_conventions(subject, _with_conventions, [field for field in fields if field != "layout"], frozenset(declared))
    subject, weights = _with_weights(subject, frozenset(declared))
    usable = usable_dtypes(subject, dtypes)
    lacks = {option: "its signature has no such argument" for option in OPTIONS if option not in subject.supports} | lacks
    lacks |= {str(kind).removeprefix("torch."): "it raises, or answers in another dtype" for kind in dtypes if kind not in usable}
    conventions = {convention.name: convention for convention in (*early, *late, *weights)}
    return ResolvedSubject(replace(subject, dtypes=usable or dtypes[:1]), tuple(conventions.values()), lacks)


def _subject(adapter: ArgumentAdapter, name: str, supports: frozenset[str], dtypes: tuple[torch.dtype, ...], device: torch.device) -> CallSubject:
    as_source = adapter.as_source if ":" in name and "<" not in name and adapter.conventions.layout != "packed" else None
    return CallSubject(name, adapter.compute, supports, adapter.conventions, dtypes, device, as_source=as_source)


def _adapter_of(subject: CallSubject) -> ArgumentAdapter:
    """The adapter whose bound method the subject computes with."""
    adapter: ArgumentAdapter = getattr(subject.compute, "__self__")  # noqa: B009
    return adapter


def _with_conventions(subject: CallSubject, conventions: Conventions, **changes: bool) -> CallSubject:
    adapter = replace(_adapter_of(subject), conventions=conventions, **changes)
    return _subject(adapter, subject.name, subject.supports, subject.dtypes, subject.device)


def _with_mask_types(subject: CallSubject, option_names: Mapping[str, str]) -> CallSubject:
    """The subject with masks as it takes them, boolean or additive, and with a bias passed as its mask where it takes one so."""
    if "mask" not in option_names:
        return subject
    masked = probe_problem(mask=torch.arange(5).expand(1, 1, 3, 5) > 1)
    if isinstance(probe(subject, masked), Exception):
        additive = _with_conventions(subject, subject.conventions, bool_masks=False)
        subject = additive if is_correct(additive, masked) else subject
    if "bias" not in option_names:
        with_bias = _with_conventions(replace(subject, supports=subject.supports | {"bias"}), subject.conventions, bias_in_mask=True)
        if is_correct(with_bias, probe_problem(bias=random_numbers(1, 1, 3, 5, seed=4))):
            return with_bias
    return subject


def _with_weights(subject: CallSubject, declared: frozenset[str]) -> tuple[CallSubject, list[ResolvedConvention]]:
    """The subject with the convention of its returned weights."""
    got = probe(subject, probe_problem(), CallMode(weights=True))
    returned = "never"
    if isinstance(got, Answer) and got.weights is not None:
        returned = "averaged" if got.weights.dim() == 3 else "per head"
    found = [] if "weights" in declared else [ResolvedConvention("weights", returned, "probed")]
    changes: dict[str, Any] = {convention.name: convention.value for convention in found}
    if returned != "never" and "dropout" in subject.supports and "weights_after_dropout" not in declared:
        got = probe(subject, probe_problem(dropout=0.5), CallMode(weights=True, training=True))
        if isinstance(got, Answer) and got.weights is not None:
            after = bool(((got.weights.detach().double().sum(-1) - 1).abs() > 1e-3).any())
            found.append(ResolvedConvention("weights_after_dropout", after, "probed"))
            changes["weights_after_dropout"] = after
    return _with_conventions(subject, replace(subject.conventions, **changes)), found

"""The conventions and abilities of an implementation, found by probing: small problems on which every convention gives another result."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.call_guard import ProcessSettings, captured_output, printable
from headwise.conformance.adapters.module_subject import ModuleCall
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import Subject
from headwise.errors import NotSupported

CLOSE = 1e-3  # conventions change results by far more, rounding in float32 by far less

MEANINGS = {
    ("corner", "bottom-right"): "without an offset the last query is aligned with the last key",
    ("corner", "top-left"): "without an offset the first query is aligned with the first key",
    ("dead_row", "zero"): "a fully masked row gives 0",
    ("dead_row", "nan"): "a fully masked row gives NaN",
    ("dead_row", "mean"): "a fully masked row gives the mean of all values",
    ("hidden_nonfinite", "absent"): "NaN or inf in a hidden key or value is ignored",
    ("hidden_nonfinite", "leaks"): "NaN or inf in a hidden key or value reaches the output",
    ("key_heads", "neighbours share"): "adjacent query heads share a key/value head",
    ("key_heads", "in turn"): "key/value heads repeat in turn over the query heads",
    ("layout", "B H T D"): "heads come before tokens",
    ("layout", "B T H D"): "tokens come before heads",
    ("layout", "packed"): "sequences are concatenated without padding",
    ("mask_polarity", "keep"): "True in a mask means visible",
    ("mask_polarity", "hide"): "True in a mask means hidden",
    ("weights", "per head"): "attention weights are returned for every head",
    ("weights", "averaged"): "attention weights are returned averaged over heads",
    ("weights", "never"): "attention weights are not returned",
    ("weights_after_dropout", False): "returned weights are those before dropout",
    ("weights_after_dropout", True): "returned weights are those after dropout",
    ("window_counts_own", True): "a window of w holds w keys, the query's own position included",
    ("window_counts_own", False): "a window of w holds w earlier keys and the query's own position",
    ("qkv_packing", "q k v"): "one projection holds all queries, then all keys, then all values",
    ("qkv_packing", "by head"): "one projection holds the query, key and value of each head in turn",
    ("qkv_packing", "by group"): "one projection holds the queries of a group, its key and its value in turn",
    ("rope_pairing", "halves"): "feature m is rotated with feature m + D/2",
    ("rope_pairing", "neighbours"): "feature 2m is rotated with feature 2m + 1",
}

S = TypeVar("S", CallSubject, ModuleCall)


@dataclass(frozen=True)
class ResolvedConvention:
    """One convention of a subject, and how it is known.

    Attributes:
        name: field of `Conventions`.
        value: value of the field.
        source: "declared" by the caller, "documented" by the peer, "probed", or "unclear" where no known convention explains the result.
        view: one of several views of a subject, where they differ; "" for all.
    """

    name: str
    value: str | bool | None
    source: Literal["declared", "documented", "probed", "unclear"]
    view: str = ""

    @property
    def meaning(self) -> str:
        """The convention in words."""
        known = {(name, str(value)): meaning for (name, value), meaning in MEANINGS.items()}
        return known.get((self.name, str(self.value)), f"{self.name} is {self.value}")


def random_numbers(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers in float32, the same in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def probe_problem(
    batch: int = 2, heads: int = 2, groups: int = 2, queries: int = 3, keys: int = 5, head_dim: int = 4, value_dim: int = 4, **options: Any
) -> Problem:
    """A small random problem."""
    query, key = random_numbers(batch, heads, queries, head_dim), random_numbers(batch, groups, keys, head_dim, seed=1)
    return Problem(query, key, random_numbers(batch, groups, keys, value_dim, seed=2), **options)


def _irregular_mask(heads: int, queries: int = 3, keys: int = 5) -> Tensor:
    """A mask in which every row hides some keys, no two rows the same ones, and no row is the complement of another."""
    return ((torch.arange(keys) + torch.arange(queries)[:, None]) % 3 > 0).expand(1, heads, queries, keys).clone()


def _with_fully_masked_row() -> Problem:
    mask = torch.ones(1, 1, 3, 5, dtype=torch.bool)
    mask[..., 1, :] = False
    return probe_problem(mask=mask)


def leaks_hidden_nonfinite(subject: Subject) -> bool | None:
    """Whether NaN or inf in a hidden key or value reaches the output of other queries, or a gradient; None where nothing can be hidden."""
    if not subject.supports & {"mask", "causal"}:
        return None
    last_hidden = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    last_hidden[..., 4] = False
    problem = probe_problem(queries=5, mask=last_hidden) if "mask" in subject.supports else probe_problem(queries=5, causal=True)
    upstream = torch.ones(2, 2, 5, 4, dtype=subject.dtypes[0], device=subject.device)
    upstream[:, :, 4] = 0
    for name, value in (("key", torch.inf), ("key", torch.nan), ("value", torch.nan)):
        tensor = getattr(problem, name).clone()
        tensor[:, :, 4] = value
        got = probe(subject, problem.replace(**{name: tensor}), CallMode(upstream=upstream) if "gradients" in subject.supports else PLAIN)
        if isinstance(got, Exception):
            return None
        gradients = [got.gradients[other][:, :, :4] for other in ("query", "key", "value") if other in got.gradients]
        if not all(bool(x.isfinite().all()) for x in (got.output[:, :, :4], *gradients)):
            return True
    return False


# The problem that tells the values of a convention apart, and what a subject must support to be probed. Later probes rely on earlier results.
PROBES: dict[str, tuple[tuple[frozenset[str], Callable[[], Problem]], ...]] = {
    "layout": ((frozenset(), probe_problem),),
    "key_heads": ((frozenset({"groups"}), lambda: probe_problem(heads=4)),),  # reported where it is declared; never probed
    "mask_polarity": ((frozenset({"mask"}), lambda: probe_problem(mask=_irregular_mask(heads=1))),),
    "corner": ((frozenset({"causal"}), lambda: probe_problem(causal=True)),),
    "window_counts_own": ((frozenset({"window"}), lambda: probe_problem(queries=5, window=2)),),
    "dead_row": ((frozenset({"mask"}), _with_fully_masked_row), (frozenset({"causal"}), lambda: probe_problem(queries=5, keys=3, causal=True))),
}


def probe_conventions(
    subject: S, with_conventions: Callable[[S, Conventions], S], fields: Iterable[str], declared: frozenset[str]
) -> tuple[S, list[ResolvedConvention]]:
    """Find each of these conventions of the subject, except those that are declared.

    Args:
        with_conventions: the same subject, called and judged under other conventions.
    """
    found = [ResolvedConvention(name, getattr(subject.conventions, name), "declared") for name in PROBES if name in declared]
    for name in (name for name in PROBES if name in fields and name not in declared):
        make = next((make for needs, make in PROBES[name] if needs <= subject.supports), None)
        if make is None:
            continue
        candidates = [with_conventions(subject, replace(subject.conventions, **{name: value})) for value in _values(subject.conventions, name)]
        errors = [share_wrong(candidate, make()) for candidate in candidates]
        subject = candidates[errors.index(min(errors))]
        found.append(ResolvedConvention(name, getattr(subject.conventions, name), "probed" if min(errors) == 0 else "unclear"))
    if "hidden_nonfinite" in fields and "hidden_nonfinite" not in declared:
        leaks = leaks_hidden_nonfinite(subject)
        if leaks is not None:
            subject = with_conventions(subject, replace(subject.conventions, hidden_nonfinite="leaks" if leaks else "absent"))
            found.append(ResolvedConvention("hidden_nonfinite", subject.conventions.hidden_nonfinite, "probed"))
    return subject, found


def _values(conventions: Conventions, name: str) -> list[Any]:
    """The values of a field, the present one first."""
    hint = get_type_hints(Conventions)[name]
    values = [False, True] if hint is bool else [value for value in get_args(hint) if not isinstance(value, type)]
    now = getattr(conventions, name)
    return [now, *(value for value in values if value != now and value != "packed")]


def is_correct(subject: Subject, problem: Problem) -> bool:
    """Whether the subject's answer is the expected one under its conventions."""
    return share_wrong(subject, problem) == 0


def share_wrong(subject: Subject, problem: Problem) -> float:
    """The share of numbers that differ from the expected ones under the subject's conventions; inf where nothing can be compared."""
    got = probe(subject, problem)
    expected = problem.expected(subject.conventions).output
    if not isinstance(got, Answer) or got.output.shape != expected.shape:
        return torch.inf
    return float((~_close(got.output, expected)).double().mean())


def roughly_equal(got: Tensor, expected: Tensor) -> bool:
    """Whether two tensors agree up to rounding, with NaN in the same places."""
    if got.shape != expected.shape:
        return False
    return bool(_close(got, expected).all())


def _close(got: Tensor, expected: Tensor) -> Tensor:
    return torch.isclose(got.detach().cpu().double(), expected, rtol=CLOSE, atol=CLOSE, equal_nan=True)


before_probe: list[Callable[[AnyProblem, CallMode], None]] = []
"""Called with each probe before it is made; they may raise `NotSupported` to skip it."""


def probe(subject: Subject, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer | Exception:
    """The subject's answer, or the exception that it raised."""
    try:
        for hook in before_probe:
            hook(problem, mode)
    except NotSupported as refusal:
        return refusal
    settings = ProcessSettings()
    with captured_output(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return subject.attend(problem.to(subject.dtypes[0], subject.device), mode)
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            settings.restore()


def missing_abilities(subject: Subject, **always: Any) -> Iterator[tuple[str, str | None]]:
    """Each ability that can be probed, and why the subject lacks it, or None.

    Args:
        always: options without which the subject cannot be called at all.
    """

    def make(**changes: Any) -> Problem:
        return probe_problem(**{**always, **changes})

    upstream = random_numbers(2, 2, 3, 4, seed=3)
    trials: dict[str, tuple[Problem, CallMode]] = {
        "groups": (make(heads=4), PLAIN),
        "value_width": (make(value_dim=3), PLAIN),
        "long": (make(batch=1, queries=513, keys=513), PLAIN),
        "wide": (make(head_dim=256, value_dim=256), PLAIN),
        "gradients": (make(), CallMode(upstream=upstream.to(subject.device, subject.dtypes[0]))),
    }
    if "mask" in subject.supports:
        trials["mask_by_head"] = make(mask=_irregular_mask(heads=2)), PLAIN
    if "query_offset" in subject.supports and "causal" in subject.supports:
        trials["offset_by_row"] = make(causal=True, query_offset=torch.tensor([1, 2])), PLAIN
    for name, (problem, mode) in trials.items():
        got = probe(subject, problem, mode)
        yield name, _reason(got) if isinstance(got, Exception) else None
    yield "weights", _why_missing(probe(subject, make(), CallMode(weights=True)), "weights")
    yield "lse", _why_missing(probe(subject, make()), "lse")
    sizes = ({"queries": 0}, {"keys": 0}, {"heads": 0, "groups": 0}, {"batch": 0})
    empty = [probe(subject, make(**size)) for size in sizes]
    yield "empty", next((_reason(got) for got in empty if isinstance(got, Exception)), None)


def unsupported_options(subject: Subject) -> Iterator[tuple[str, str]]:
    """Each option of the signature that the subject refuses with NotImplementedError or ValueError on the simplest problem, and its reason.

    Any other exception is a fault, and left to the invariants.
    """
    causal = dict.fromkeys(subject.supports & {"causal"}, True)
    probes: dict[str, dict[str, Any]] = {
        "query_offset": {"query_offset": 2, **causal},
        "window": {"window": 2, **causal},
        "bias": {"bias": random_numbers(1, 1, 3, 5, seed=4)},
        "scale": {"scale": 0.3},
        "softcap": {"softcap": 2.0},
        "sink": {"sink": random_numbers(2, seed=5)},
        "dropout": {"dropout": 0.1},
    }
    for option, options in probes.items():
        got = probe(subject, probe_problem(**options)) if option in subject.supports else None
        if isinstance(got, NotSupported | NotImplementedError | ValueError):
            yield option, _reason(got)


def _why_missing(got: Answer | Exception, what: str) -> str | None:
    if isinstance(got, Exception):
        return _reason(got)
    return None if getattr(got, what) is not None else "it does not return them" if what == "weights" else "it does not return it"


def _reason(error: Exception) -> str:
    """The first line of an error."""
    lines = str(error).strip().splitlines()
    first = printable(lines[0][:160]) if lines else "no message"
    return first if isinstance(error, NotSupported) and lines else f"{type(error).__name__}: {first}"


def usable_dtypes(subject: S, dtypes: Iterable[torch.dtype]) -> tuple[torch.dtype, ...]:
    """The dtypes in which the subject answers in the same dtype."""
    found = []
    for dtype in dtypes:
        got = probe(replace(subject, dtypes=(dtype,)), probe_problem())
        if isinstance(got, Answer) and got.output.dtype == dtype:
            found.append(dtype)
    return tuple(found)

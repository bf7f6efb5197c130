"""What a subject means and what it knows, found by asking: small problems on which every meaning gives another answer."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_type_hints

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.subject import Refused, Subject
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.sandbox.watched_subject import Settings, legible, said

CLOSE = 1e-3  # meanings differ by far more, rounding in float32 by far less

MEANINGS = {
    ("corner", "bottom-right"): "without an offset the last query stands at the last key",
    ("corner", "top-left"): "without an offset the first query stands at the first key",
    ("dead_row", "zero"): "a row that sees no key gives 0",
    ("dead_row", "nan"): "a row that sees no key gives NaN",
    ("dead_row", "mean"): "a row that sees no key gives the mean of all values",
    ("hidden_nonfinite", "absent"): "NaN or inf in a hidden key or value stays out",
    ("hidden_nonfinite", "leaks"): "NaN or inf in a hidden key or value reaches the output",
    ("key_heads", "neighbours share"): "neighbouring query heads share a key head",
    ("key_heads", "in turn"): "query heads take key heads in turn",
    ("layout", "B H T D"): "heads come before tokens",
    ("layout", "B T H D"): "tokens come before heads",
    ("layout", "packed"): "texts lie behind one another, without padding",
    ("mask_polarity", "keep"): "True in a mask means: may be seen",
    ("mask_polarity", "hide"): "True in a mask means: is hidden",
    ("weights", "per head"): "weights come for every head",
    ("weights", "averaged"): "weights come averaged over heads",
    ("weights", "never"): "weights are not given back",
    ("weights_after_dropout", False): "weights are those before dropout",
    ("weights_after_dropout", True): "weights are those that dropout left",
    ("window_counts_own", True): "a window of w has w keys, the query's own among them",
    ("window_counts_own", False): "a window of w reaches w keys back, beside the query's own",
    ("qkv_packing", "q k v"): "one map holds all queries, then all keys, then all values",
    ("qkv_packing", "by head"): "one map holds query, key and value of each head in turn",
    ("qkv_packing", "by group"): "one map holds the queries of a group, its key and its value in turn",
    ("rope_pairing", "halves"): "feature m turns with feature m + D/2",
    ("rope_pairing", "neighbours"): "feature 2m turns with feature 2m + 1",
}


@dataclass(frozen=True)
class Stated:
    """One convention of a subject, and how it is known.

    Attributes:
        name: field of `Conventions`.
        value: of the field.
        known: "declared" by the caller, "documented" by the peer, "probed", or "unclear": no meaning that is known fits what came.
        of: one of several views of a subject, where they differ; "" for all.
    """

    name: str
    value: Any
    known: Literal["declared", "documented", "probed", "unclear"]
    of: str = ""

    @property
    def meaning(self) -> str:
        """In words."""
        return MEANINGS.get((self.name, self.value), f"{self.name} is {self.value}")


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Numbers that no two places share."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def plain(batch: int = 2, heads: int = 2, groups: int = 2, queries: int = 3, keys: int = 5, width: int = 4, value_width: int = 4, **options: Any) -> Problem:
    """A problem to ask with."""
    return Problem(
        numbers(batch, heads, queries, width), numbers(batch, groups, keys, width, seed=1), numbers(batch, groups, keys, value_width, seed=2), **options
    )


def _some_hidden(*shape: int) -> Tensor:
    """A mask in which every row sees some keys and not others, each its own, and none of them the mirror of another."""
    rows = torch.arange(shape[-2])[:, None] if len(shape) > 1 else 0
    return ((torch.arange(shape[-1]) + rows) % 3 > 0).expand(shape).clone()


def _dead() -> Problem:
    mask = torch.ones(1, 1, 3, 5, dtype=torch.bool)
    mask[..., 1, :] = False
    return plain(mask=mask)


def leaks(subject: Any) -> bool | None:
    """Whether NaN or inf in a hidden key or value reaches a query that may not see it, or a gradient; None where nothing can be hidden."""
    if not subject.honours & {"mask", "causal"}:
        return None
    hidden = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    hidden[..., 4] = False
    asking = plain(queries=5, mask=hidden) if "mask" in subject.honours else plain(queries=5, causal=True)
    upstream = torch.ones(2, 2, 5, 4, dtype=subject.dtypes[0], device=subject.device)
    upstream[:, :, 4] = 0
    for name, poison in (("key", torch.inf), ("key", torch.nan), ("value", torch.nan)):
        tensor = getattr(asking, name).clone()
        tensor[:, :, 4] = poison
        got = asked(subject, asking.having(**{name: tensor}), How(upstream=upstream) if "gradients" in subject.honours else PLAINLY)
        if isinstance(got, Exception):
            return None
        slopes = [got.gradients[other][:, :, :4] for other in ("query", "key", "value") if other in got.gradients]
        if not all(bool(x.isfinite().all()) for x in (got.output[:, :, :4], *slopes)):
            return True
    return False


# What tells the meanings of a word apart, and what a subject must know to be asked. Earlier answers are used by later questions.
QUESTIONS: dict[str, tuple[tuple[frozenset[str], Callable[[], Problem]], ...]] = {
    "layout": ((frozenset(), plain),),
    "key_heads": ((frozenset({"groups"}), lambda: plain(heads=4)),),  # listed where it is declared; never guessed
    "mask_polarity": ((frozenset({"mask"}), lambda: plain(mask=_some_hidden(1, 1, 3, 5))),),
    "corner": ((frozenset({"causal"}), lambda: plain(causal=True)),),
    "window_counts_own": ((frozenset({"window"}), lambda: plain(queries=5, window=2)),),
    "dead_row": ((frozenset({"mask"}), _dead), (frozenset({"causal"}), lambda: plain(queries=5, keys=3, causal=True))),
}


def settle(subject: Any, speaking: Callable[[Any, Conventions], Any], fields: Iterable[str], declared: frozenset[str]) -> tuple[Any, list[Stated]]:
    """Find what the subject means by each of these words, those that are declared apart.

    Args:
        speaking: the same subject, spoken to and judged under other conventions.
    """
    found = [Stated(name, getattr(subject.conventions, name), "declared") for name in QUESTIONS if name in declared]
    for name in (name for name in QUESTIONS if name in fields and name not in declared):
        question = next((question for needs, question in QUESTIONS[name] if needs <= subject.honours), None)
        if question is None:
            continue
        candidates = [speaking(subject, replace(subject.conventions, **{name: value})) for value in _meanings(subject.conventions, name)]
        misses = [miss(candidate, question()) for candidate in candidates]
        subject = candidates[misses.index(min(misses))]
        found.append(Stated(name, getattr(subject.conventions, name), "probed" if min(misses) == 0 else "unclear"))
    if "hidden_nonfinite" in fields and "hidden_nonfinite" not in declared:
        leaking = leaks(subject)
        if leaking is not None:
            value = "leaks" if leaking else "absent"
            subject = speaking(subject, replace(subject.conventions, hidden_nonfinite=value))
            found.append(Stated("hidden_nonfinite", value, "probed"))
    return subject, found


def _meanings(conventions: Conventions, name: str) -> list[Any]:
    """The values of a field, the present one first."""
    hint = get_type_hints(Conventions)[name]
    values = [False, True] if hint is bool else [value for value in get_args(hint) if not isinstance(value, type)]
    now = getattr(conventions, name)
    return [now, *(value for value in values if value != now and value != "packed")]


def fits(subject: Subject, problem: Problem) -> bool:
    """Whether the subject gives what is right under its conventions."""
    return miss(subject, problem) == 0


def miss(subject: Subject, problem: Problem) -> float:
    """The share of numbers that are not what is right under the subject's conventions; infinite where there are none to compare."""
    got = asked(subject, problem)
    right = problem.right(subject.conventions).output
    if not isinstance(got, Answer) or got.output.shape != right.shape:
        return torch.inf
    return float((~_close(got.output, right)).double().mean())


def alike(got: Tensor, right: Tensor) -> bool:
    """The same but for rounding, NaN in the same places."""
    if got.shape != right.shape:
        return False
    return bool(_close(got, right).all())


def _close(got: Tensor, right: Tensor) -> Tensor:
    return torch.isclose(got.detach().cpu().double(), right, rtol=CLOSE, atol=CLOSE, equal_nan=True)


gates: list[Callable[[Problem | LayerProblem, How], None]] = []  # each is told of a probe before it is made, and may refuse it


def asked(subject: Subject, problem: Problem | LayerProblem, how: How = PLAINLY) -> Answer | Exception:
    """What the subject answers, or how it refuses. Whatever it raises is an answer to a probe."""
    try:
        for gate in gates:
            gate(problem, how)
    except Refused as refusal:
        return refusal
    settings = Settings()
    with said(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return subject.attend(problem.to(subject.dtypes[0], subject.device), how)
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            settings.restore()


def abilities(subject: Subject, **always: Any) -> Iterator[tuple[str, str | None]]:
    """Each ability that can be tried, and why the subject lacks it, or None.

    Args:
        always: options without which it cannot be asked at all.
    """

    def plain_(**changes: Any) -> Problem:
        return plain(**{**always, **changes})

    upstream = numbers(2, 2, 3, 4, seed=3)
    trials: dict[str, tuple[Problem, How]] = {
        "groups": (plain_(heads=4), PLAINLY),
        "value_width": (plain_(value_width=3), PLAINLY),
        "long": (plain_(batch=1, queries=513, keys=513), PLAINLY),
        "wide": (plain_(width=256, value_width=256), PLAINLY),
        "gradients": (plain_(), How(upstream=upstream.to(subject.device, subject.dtypes[0]))),
    }
    if "mask" in subject.honours:
        trials["mask_by_head"] = plain_(mask=_some_hidden(1, 2, 3, 5)), PLAINLY
    if "query_offset" in subject.honours and "causal" in subject.honours:
        trials["offset_by_row"] = plain_(causal=True, query_offset=torch.tensor([1, 2])), PLAINLY
    for name, (problem, how) in trials.items():
        got = asked(subject, problem, how)
        yield name, _said(got) if isinstance(got, Exception) else None
    yield "weights", _lacks(asked(subject, plain_(), How(weights=True)), "weights")
    yield "lse", _lacks(asked(subject, plain_()), "lse")
    sizes = ({"queries": 0}, {"keys": 0}, {"heads": 0, "groups": 0}, {"batch": 0})
    empty = [asked(subject, plain_(**size)) for size in sizes]
    yield "empty", next((_said(got) for got in empty if isinstance(got, Exception)), None)


def refusals(subject: Subject) -> Iterator[tuple[str, str]]:
    """Each option that its signature has, and that it says it cannot do: by NotImplementedError or ValueError at the plainest question. Any other error
    is a fault, and left to the laws."""
    head = subject.honours & {"causal"}
    questions: dict[str, dict[str, Any]] = {
        "query_offset": {"query_offset": 2, **dict.fromkeys(head, True)},
        "window": {"window": 2, **dict.fromkeys(head, True)},
        "bias": {"bias": numbers(1, 1, 3, 5, seed=4)},
        "scale": {"scale": 0.3},
        "softcap": {"softcap": 2.0},
        "sink": {"sink": numbers(2, seed=5)},
        "dropout": {"dropout": 0.1},
    }
    for option, options in questions.items():
        got = asked(subject, plain(**options)) if option in subject.honours else None
        if isinstance(got, Refused | NotImplementedError | ValueError):
            yield option, _said(got)


def _lacks(got: Answer | Exception, what: str) -> str | None:
    if isinstance(got, Exception):
        return _said(got)
    return None if getattr(got, what) is not None else "it gives none back"


def _said(error: Exception) -> str:
    """The first line of an error."""
    words = str(error).strip().splitlines()
    said = legible(words[0][:160]) if words else "no message"
    return said if isinstance(error, Refused) and words else f"{type(error).__name__}: {said}"


def usable_dtypes(subject: Subject, dtypes: Iterable[torch.dtype]) -> tuple[torch.dtype, ...]:
    """Those in which the subject answers in the same dtype."""
    found = []
    for dtype in dtypes:
        got = asked(replace(subject, dtypes=(dtype,)), plain())
        if isinstance(got, Answer) and got.output.dtype == dtype:
            found.append(dtype)
    return tuple(found)

"""Problems that nobody thought of: drawn by Hypothesis over all sizes, options, dtypes and memory layouts that a subject knows."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisDeprecationWarning

from headwise.axes import Tensor
from headwise.conformance.adapters.subject import Subject
from headwise.conformance.problems.problem import Problem

FEW = st.integers(1, 9)
SOME = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 31, 32, 33, 63, 64, 65, 70, 97, 129))
SCALES = st.sampled_from((0.3, 1.0, -0.5, -1.0, 0.0, 2.5))


def hunt(subject: Subject, judge: Callable[[Problem], Any], examples: int, seconds: float) -> int:
    """Judge problems drawn at random, the same at every run, until so many were tried or the time is over; gives their number.

    Args:
        judge: keeps what it finds.
    """
    end = time.monotonic() + seconds
    tried = 0

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(problems(subject.honours, subject.dtypes, subject.device))
    def one(problem: Problem) -> None:
        nonlocal tried
        if time.monotonic() < end:
            tried += 1
            judge(problem)

    with warnings.catch_warnings():  # checkers of annotations look at random items, which Hypothesis takes for ours
        warnings.simplefilter("ignore", HypothesisDeprecationWarning)
        one()
    return tried


@st.composite
def problems(draw: Callable[..., Any], honours: frozenset[str], dtypes: tuple[torch.dtype, ...], device: torch.device) -> Problem:
    """Any problem that a subject of this kind can be asked; every size has its chance of being 1, and of being odd."""
    batch, groups = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    heads = groups * (draw(st.integers(1, 4)) if "groups" in honours else 1)
    queries, keys = draw(st.one_of(FEW, SOME)), draw(st.one_of(FEW, SOME))
    width = draw(st.sampled_from((1, 2, 3, 4, 5, 7, 8, 16, 33)))
    value_width = draw(st.sampled_from((width, 1, 2, 3, 5, 9))) if "value_width" in honours else width
    dtype, seed = draw(st.sampled_from(dtypes)), draw(st.integers(0, 2**16))
    make = _Numbers(dtype, device, seed, whole=draw(st.booleans()), stretched=draw(st.booleans()))
    query, key, value = make(batch, heads, queries, width), make(batch, groups, keys, width), make(batch, groups, keys, value_width)
    return Problem(query, key, value, **_options(draw, honours, make, (batch, heads, queries, keys)))


def _options(draw: Callable[..., Any], honours: frozenset[str], make: "_Numbers", shape: tuple[int, int, int, int]) -> dict[str, Any]:
    batch, heads, queries, keys = shape
    drawn: dict[str, Any] = {}
    each = [name for name in ("causal", "query_offset", "window", "mask", "bias", "scale", "softcap", "sink") if name in honours]
    for name in draw(st.lists(st.sampled_from(each), unique=True, max_size=3)) if each else ():
        if name == "causal":
            drawn[name] = True
        elif name == "query_offset":
            drawn[name] = _offset(draw, honours, shape, make.device)
        elif name == "window":
            side = st.one_of(st.none(), st.integers(0, 5))
            drawn[name] = draw(st.one_of(st.integers(1, 6), st.tuples(side, side)))
        elif name in ("mask", "bias"):
            by_head = heads if "mask_by_head" in honours and draw(st.booleans()) else 1
            plane = (draw(st.sampled_from((1, batch))), by_head, draw(st.sampled_from((1, queries))), keys)
            drawn[name] = make(*plane) > -0.6 if name == "mask" else make(*plane)
        elif name == "scale":
            drawn[name] = draw(SCALES)
        elif name == "softcap":
            drawn[name] = draw(st.sampled_from((0.5, 2.0, 30.0)))
        else:
            drawn[name] = make(heads)
    return drawn


def _offset(draw: Callable[..., Any], honours: frozenset[str], shape: tuple[int, int, int, int], device: torch.device) -> Any:
    batch, _, queries, keys = shape
    start = st.integers(-1, max(keys - queries, 0) + 2)
    if "offset_by_row" not in honours or draw(st.booleans()):
        return draw(start)
    rows = draw(st.lists(start, min_size=batch, max_size=batch))
    return torch.tensor(rows, device=device) if draw(st.booleans()) else rows


class _Numbers:
    """Tensors of one problem, each of other numbers."""

    def __init__(self, dtype: torch.dtype, device: torch.device, seed: int, whole: bool, stretched: bool) -> None:
        self.dtype, self.device, self.whole, self.stretched = dtype, device, whole, stretched
        self.random = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        """Normal or small whole numbers; with strides of another order of axes where stretched."""
        if self.stretched and len(shape) == 4:
            batch, heads, tokens, width = shape
            return self._fill(batch, tokens, heads, width).transpose(1, 2)
        return self._fill(*shape)

    def _fill(self, *shape: int) -> Tensor:
        if self.whole:
            return torch.randint(-3, 4, shape, generator=self.random).to(self.device, self.dtype)
        return torch.randn(shape, generator=self.random).to(self.device, self.dtype)

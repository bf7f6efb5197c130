"""Random problems: drawn by Hypothesis over all sizes, options, dtypes and memory layouts that a subject supports."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisDeprecationWarning

from headwise.axes import Tensor
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import Subject

SHORT = st.integers(1, 9)
LENGTHS = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 31, 32, 33, 63, 64, 65, 70, 97, 129))
SCALES = st.sampled_from((0.3, 1.0, -0.5, -1.0, 0.0, 2.5))


def search(subject: Subject, judge: Callable[[Problem], object], examples: int, seconds: float) -> int:
    """Judge random problems, the same ones in every run, and return how many were tried.

    Args:
        judge: is called with each problem, and keeps what it finds.
        examples: the number of problems.
        seconds: after which no further problem is judged.
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
        suppress_health_check=[*HealthCheck],  # pyright: ignore[reportArgumentType]
    )
    @given(problems(subject.supports, subject.dtypes, subject.device))
    def judge_one(problem: Problem) -> None:
        nonlocal tried
        if time.monotonic() < end:
            tried += 1
            judge(problem)

    with warnings.catch_warnings():  # beartype draws random items, which Hypothesis would report
        warnings.simplefilter("ignore", HypothesisDeprecationWarning)
        judge_one()
    return tried


@st.composite
def problems(draw: Callable[..., Any], supports: frozenset[str], dtypes: tuple[torch.dtype, ...], device: torch.device) -> Problem:
    """A strategy of all problems that such a subject supports; every size may be 1, and may be odd."""
    batch, groups = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    heads = groups * (draw(st.integers(1, 4)) if "groups" in supports else 1)
    queries, keys = draw(st.one_of(SHORT, LENGTHS)), draw(st.one_of(SHORT, LENGTHS))
    width = draw(st.sampled_from((1, 2, 3, 4, 5, 7, 8, 16, 33)))
    value_width = draw(st.sampled_from((width, 1, 2, 3, 5, 9))) if "value_width" in supports else width
    dtype, seed = draw(st.sampled_from(dtypes)), draw(st.integers(0, 2**16))
    make = _RandomTensors(dtype, device, seed, integers=draw(st.booleans()), strided=draw(st.booleans()))
    query, key, value = make(batch, heads, queries, width), make(batch, groups, keys, width), make(batch, groups, keys, value_width)
    return Problem(query, key, value, **_options(draw, supports, make, (batch, heads, queries, keys)))


def _options(draw: Callable[..., Any], supports: frozenset[str], make: "_RandomTensors", shape: tuple[int, int, int, int]) -> dict[str, Any]:
    batch, heads, queries, keys = shape
    drawn: dict[str, Any] = {}
    supported = [name for name in ("causal", "query_offset", "window", "mask", "bias", "scale", "softcap", "sink") if name in supports]
    for name in draw(st.lists(st.sampled_from(supported), unique=True, max_size=3)) if supported else ():
        if name == "causal":
            drawn[name] = True
        elif name == "query_offset":
            drawn[name] = _offset(draw, supports, shape, make.device)
        elif name == "window":
            side = st.one_of(st.none(), st.integers(0, 5))
            drawn[name] = draw(st.one_of(st.integers(1, 6), st.tuples(side, side)))
        elif name in ("mask", "bias"):
            of_heads = heads if "mask_by_head" in supports and draw(st.booleans()) else 1
            plane = (draw(st.sampled_from((1, batch))), of_heads, draw(st.sampled_from((1, queries))), keys)
            drawn[name] = make(*plane) > -0.6 if name == "mask" else make(*plane)
        elif name == "scale":
            drawn[name] = draw(SCALES)
        elif name == "softcap":
            drawn[name] = draw(st.sampled_from((0.5, 2.0, 30.0)))
        else:
            drawn[name] = make(heads)
    return drawn


def _offset(draw: Callable[..., Any], supports: frozenset[str], shape: tuple[int, int, int, int], device: torch.device) -> Any:
    batch, _, queries, keys = shape
    start = st.integers(-1, max(keys - queries, 0) + 2)
    if "offset_by_row" not in supports or draw(st.booleans()):
        return draw(start)
    rows = draw(st.lists(start, min_size=batch, max_size=batch))
    return torch.tensor(rows, device=device) if draw(st.booleans()) else rows


class _RandomTensors:
    """Random tensors of one problem."""

    def __init__(self, dtype: torch.dtype, device: torch.device, seed: int, integers: bool, strided: bool) -> None:
        self.dtype, self.device, self.integers, self.strided = dtype, device, integers, strided
        self.random = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        """Standard normal numbers or small integers; where `strided`, with the strides of [B, T, H, D]."""
        if self.strided and len(shape) == 4:
            batch, heads, tokens, width = shape
            return self._fill(batch, tokens, heads, width).transpose(1, 2)
        return self._fill(*shape)

    def _fill(self, *shape: int) -> Tensor:
        if self.integers:
            return torch.randint(-3, 4, shape, generator=self.random).to(self.device, self.dtype)
        return torch.randn(shape, generator=self.random).to(self.device, self.dtype)

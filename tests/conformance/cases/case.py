"""What a case is, and short words for its inputs: most have scores of 0, so that a row is the mean of the values that it sees."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

from headwise.attention.layer import LayerParams
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem

WEIGHTS = CallMode(weights=True)
LOG3 = log(3)


def output(answer: Answer) -> Tensor:
    return answer.output


def weights(answer: Answer) -> Tensor:
    return answer.weights


def writes(answer: Answer) -> Tensor:
    return answer.writes


def gradient(name: str) -> Callable[[Answer], Tensor]:
    return lambda answer: answer.gradients[name]


@dataclass(frozen=True, eq=False)
class Case:
    """One reported fault.

    Attributes:
        id: its number in the list of reports.
        mutation: the mutation that reproduces it.
        problem: the input, small.
        expected: the result, computed by hand; None where the invariants alone decide.
        invariants: those that must detect it.
        variants: the variants of the mutation that reproduce it; all when empty.
        mode: how the subject is called.
        part: the part of the answer that is compared.
        within: the absolute tolerance of `expected`.
    """

    id: str
    mutation: str
    problem: Problem | LayerProblem
    expected: Any
    invariants: tuple[str, ...]
    variants: tuple[str, ...] = ()
    mode: CallMode = PLAIN
    part: Callable[[Answer], Tensor] = output
    within: float = 1e-5


def t(*rows: Any) -> Tensor:
    """Numbers as a float32 tensor."""
    return torch.tensor(rows, dtype=torch.float32)


def row(q: list, k: list, v: list, **options: Any) -> Problem:
    """One head, width 1, scale 1 unless said: scores are q·k."""
    return Problem(*(t(*x).reshape(1, 1, -1, 1) for x in (q, k, v)), **{"scale": 1.0, **options})


def means(v: list, queries: int | None = None, heads: int = 1, batch: int = 1, **options: Any) -> Problem:
    """All scores are 0: each row is the mean of the values that it sees. The same values for every head and sample."""
    values = t(*v).reshape(1, 1, -1, 1).repeat(batch, heads, 1, 1)
    return Problem(torch.zeros(batch, heads, len(v) if queries is None else queries, 1), torch.zeros_like(values), values, **options)


def same(numbers: list, batch: int = 1, heads: int = 1) -> Tensor:
    """A row a query, the same for every head and sample."""
    return t(*numbers).reshape(1, 1, -1, 1).repeat(batch, heads, 1, 1)


def samples(*numbers: list, heads: int = 1) -> Tensor:
    """A row a query, for each sample its own."""
    return torch.stack([t(*row).reshape(1, -1, 1).repeat(heads, 1, 1) for row in numbers])


def of_heads(*numbers: list) -> Tensor:
    """One sample; a row a query, for each head its own."""
    return torch.stack([t(*row).reshape(-1, 1) for row in numbers])[None]


def shown(*rows: list) -> Tensor:
    """A mask: 1 may be seen."""
    return torch.tensor(rows).bool()


def padded(keys: int, *valid: int) -> Tensor:
    """Samples with so many real tokens, padded at the end."""
    return (torch.arange(keys) < torch.tensor(valid)[:, None])[:, None, None]


def layer(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, **options: Any) -> LayerProblem:
    """Maps [M, H, D], [M, G, D], [M, G, E], [H, E, M]."""
    biases = {name: options.pop(name) for name in ("b_q", "b_k", "b_v", "b_o", "sink") if name in options}
    return LayerProblem(x, LayerParams(w_q, w_k, w_v, w_o, **biases), **options)


def looking_at_all(x: Tensor, w_v: Tensor, w_o: Tensor, **options: Any) -> LayerProblem:
    """A layer whose scores are 0: each head writes the mean of what it sees."""
    no = torch.zeros(x.shape[2], w_v.shape[1], 2)
    return layer(x, no, no, w_v, w_o, **options)


def columns(heads: int, wide: int = 1) -> Tensor:
    """w_o by which the heads write side by side."""
    return torch.eye(heads * wide).reshape(heads, wide, heads * wide)

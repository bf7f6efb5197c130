"""N9: numbers worked out by hand, for conventions that no property can see: which features turn together, which way a map is read.

Both pairings of rotary features pass every test of distances, and a square map read the wrong way still gives heads that add
up. So each problem here is small enough for paper, and what it should give is written beside it.
"""

from dataclasses import dataclass
from math import exp, log, sin, tanh

import torch

from headwise.attention.layer import LayerParams
from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.axes import Float, Tensor
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.problem_filter import fit_to_subject


@dataclass(frozen=True, eq=False, repr=False)
class Golden(Problem):
    """A call, and its output by hand."""

    should: Float[Tensor, "..."] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class GoldenLayer(LayerProblem):
    """A layer, and its output by hand."""

    should: Float[Tensor, "..."] | None = None


def judge(subject, problem) -> Finding | None:
    should = getattr(problem, "should", None)
    right, allow = problem.expected(subject.conventions).output, tolerance(subject, problem).output
    # Where something was taken away that the subject does not know, the hand's number is of another problem.
    if should is None or should.shape != right.shape or not torch.allclose(should, right, atol=1e-5):
        return None
    return mismatch(problem, subject.attend(problem).output, should, allow + 1e-7, "It is not what a few lines on paper give.")


def numbers(*rows) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _weighed() -> Golden:
    """Scores 0 and log 3: weights 1/4 and 3/4, of values 0 and 4."""
    tensors = (numbers(x)[None, None, ..., None].reshape(1, 1, -1, 1) for x in ([1.0], [0.0, log(3)], [0.0, 4.0]))
    return Golden(*tensors, should=numbers([[[3.0]]]))  # pyright: ignore[reportArgumentType]


def _four_wide() -> Golden:
    """q·k = 2·log 3 over √4."""
    q, k, v = (numbers(x) for x in ([1.0] * 4, [[0.0] * 4, [0.5 * log(3)] * 4], [[0.0], [4.0]]))
    return Golden(q.reshape(1, 1, 1, 4), k.reshape(1, 1, 2, 4), v.reshape(1, 1, 2, 1), should=numbers([[[3.0]]]))


def _two_key_heads() -> Golden:
    """Values 5 and 7, read by heads 0 1 and 2 3."""
    values = numbers([5.0], [7.0]).reshape(1, 2, 1, 1)
    return Golden(torch.ones(1, 4, 1, 1).double(), torch.ones(1, 2, 1, 1).double(), values, should=numbers([5.0], [5.0], [7.0], [7.0])[None, :, None])


def _capped() -> Golden:
    """Scores 0 and 2·tanh(1/2), of values 0 and 1."""
    q, k, v = (numbers(x).reshape(1, 1, -1, 1) for x in ([1.0], [0.0, 1.0], [0.0, 1.0]))
    return Golden(q, k, v, scale=1.0, softcap=2.0, should=numbers([[[1 / (1 + exp(-2 * tanh(0.5)))]]]))


def _biased() -> Golden:
    """Scores 0 and 0, a bias of 0 and log 3: weights 1/4 and 3/4, of values 0 and 4."""
    q, k, v = (numbers(x).reshape(1, 1, -1, 1) for x in ([0.0], [1.0, 2.0], [0.0, 4.0]))
    return Golden(q, k, v, bias=numbers(0.0, log(3)), should=numbers([[[3.0]]]))


def maps(w_q, w_k, w_v, w_o, **biases) -> LayerParams:
    """One head; maps as rows of numbers."""
    q, k, v = (numbers(*w)[:, None] for w in (w_q, w_k, w_v))
    return LayerParams(q, k, v, numbers(*w_o)[None], **biases)


def _each_map_its_own_way() -> GoldenLayer:
    """Uniform weights; the mean of v = x·w_v is (2, 3), and (2, 3)·w_o is (32, 3). Nothing is symmetric."""
    learned = maps([[0, 0], [0, 0]], [[0, 0], [0, 0]], [[1, 2], [3, 4]], [[1, 0], [10, 1]])
    return GoldenLayer(torch.eye(2).double()[None], learned, should=numbers([[32.0, 3], [32, 3]]))


def _query_is_not_key() -> GoldenLayer:
    """q = (1, 0), k = (0, log 3), v = (0, 4): rows give 3 and 2, written by (1, 2)."""
    learned = maps([[1], [0]], [[0], [log(3)]], [[0], [4]], [[1, 2]])
    return GoldenLayer(torch.eye(2).double()[None], learned, should=numbers([[3.0, 6], [2, 4]]))


def _two_patterns() -> GoldenLayer:
    """Head 0 asks with its first token and gives 3 and 2; head 1 asks nothing and gives 2."""
    w_q, w_k, w_v = (numbers(*rows)[:, :, None] for rows in ([[1.0, 0], [0, 0]], [[0.0, 0], [log(3)] * 2], [[0.0, 0], [4, 4]]))
    return GoldenLayer(torch.eye(2).double()[None], LayerParams(w_q, w_k, w_v, torch.eye(2).double()[:, None]), should=numbers([[3.0, 2], [2, 2]]))


def _elsewhere() -> GoldenLayer:
    """Three tokens of width 1 that are looked at alike: their mean, 4, written by (1, 2); no position is told."""
    learned = LayerParams(torch.zeros(2, 1, 1).double(), torch.zeros(1, 1, 1).double(), torch.ones(1, 1, 1).double(), numbers([[1.0, 2]]))
    return GoldenLayer(torch.eye(2).double()[None], learned, context=numbers([[1.0], [2], [9]]), should=numbers([[4.0, 8], [4, 8]]))


def _four_heads_of_two() -> GoldenLayer:
    """Values are 5 and 7 whatever x is; head h writes in column h."""
    some = torch.arange(16.0).double().reshape(4, 4, 1) / 8
    learned = LayerParams(some, some[:, :2] - 1, torch.zeros(4, 2, 1).double(), torch.eye(4).double()[:, None], b_v=numbers([5.0], [7.0]))
    return GoldenLayer(numbers([[1.0, 2, 3, 4], [0, 1, 0, 1]]), learned, should=numbers([[5.0, 5, 7, 7], [5, 5, 7, 7]]))


def _turned(pairing, score: float) -> GoldenLayer:
    """x is feature 0 at position 0 and feature 2 at position 1; row 1 scores `score` and 1, of values 0 and 1."""
    one = torch.eye(4).double().tolist()
    learned = maps(one, one, [[0], [0], [1], [0]], [[1, 0, 0, 0]])
    x = numbers([[1.0, 0, 0, 0], [0, 0, 1, 0]])
    row = 1 / (1 + exp(score - 1))
    return GoldenLayer(x, learned, causal=True, scale=1.0, position=Rotary(pairing=pairing), should=numbers([[0.0, 0, 0, 0], [row, 0, 0, 0]]))


def _sloped(slopes: list[float]) -> GoldenLayer:
    """Two tokens, all scores 0: the one before has weight 1/(1 + e^slope), and the value 1. Head h writes in column h."""
    heads = len(slopes)
    no = torch.zeros(heads, heads, 1).double()
    w_v = torch.zeros(heads, heads, 1).double()
    w_v[0] = 1
    x = torch.zeros(1, 2, heads).double()
    x[0, 0, 0] = 1
    row = [1 / (1 + exp(slope)) for slope in slopes]
    w_o = torch.eye(heads).double()[:, None]
    return GoldenLayer(x, LayerParams(no, no, w_v, w_o), causal=True, position=Alibi(), should=numbers([[1.0] * heads, row]))


def _bucketed() -> GoldenLayer:
    """One token ahead is bucket 17, one behind is 1; scores log 3 and log 2, of values 0 and 12."""
    table = torch.zeros(32, 1).double()
    table[17], table[1] = log(3), log(2)
    learned = maps([[0], [0]], [[0], [0]], [[0], [12]], [[1, 0]])
    return GoldenLayer(torch.eye(2).double()[None], learned, position=RelativeBuckets(table), should=numbers([[9.0, 0], [4, 0]]))


@fit_to_subject
def problems(level: CheckLevel):
    yield from (_weighed(), _four_wide(), _two_key_heads(), _capped(), _biased())
    yield from (_each_map_its_own_way(), _query_is_not_key(), _two_patterns(), _elsewhere(), _four_heads_of_two(), _bucketed())
    # Feature 2 turns with feature 0 or with feature 3: by 1 radian against feature 0, or not at all.
    yield from (_turned("halves", -sin(1)), _turned("neighbours", 0.0))
    # The authors' code for 4 and 3 heads.
    yield from (_sloped([1 / 4, 1 / 16, 1 / 64, 1 / 256]), _sloped([1 / 16, 1 / 256, 1 / 4]))


ENTRY = Invariant(
    code="N9",
    statement="Small problems give what they give on paper: maps read as stored, features turned in the declared pairs, slopes and buckets as published.",
    formula="weights of scores 0 and log 3 are 1/4 and 3/4",
    when="always",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)

"""Somebody's attention, as proof calls it."""

from typing import Literal, Protocol, runtime_checkable

import torch

from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.errors import HeadwiseError

OPTIONS = ("causal", "query_offset", "window", "mask", "bias", "scale", "softcap", "sink", "dropout")
ABILITIES = ("groups", "value_width", "mask_by_head", "offset_by_row", "weights", "lse", "gradients", "empty", "long", "wide")
CLAIMS = ("batch_invariance",)  # more than every attention must keep: rows alone give the same bits as in a batch
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
OF_LAYERS = ("context", "biases", "rotary", "alibi", "buckets", "chunks", "settable")


class Refused(HeadwiseError, RuntimeError):
    """A subject says openly that it cannot compute this problem: it is not tested, and the report says so."""


@runtime_checkable
class Subject(Protocol):
    """What can be proved right or wrong.

    Attributes:
        name: for reports.
        level: "call" answers a `Problem` (query, key, value → output), "layer" a `LayerProblem` (x → out).
        honours: the words that it knows; what is not among them is not tested. `OPTIONS` are fields of a problem. `ABILITIES`:
            G < H; E ≠ D; a mask or bias that differs by head; one offset a batch row; returned weights; returned lse;
            gradients; axes of length 0; some hundred tokens (of a layer 40); heads of up to 256 features. `OF_LAYERS`: cross-attention;
            biases of the maps; positions; a cache; maps that can be changed.
        conventions: what it means by its words.
        dtypes: that it accepts, the usual one first.
        device: where tensors are to lie.
        paths: further ways to the same numbers: a backend, a fast path, 3 axes instead of 4. Named, for `How.path`.
    """

    name: str
    level: Literal["call", "layer"]
    honours: frozenset[str]
    conventions: Conventions
    dtypes: tuple[torch.dtype, ...]
    device: torch.device
    paths: tuple[str, ...]

    def attend(self, problem: Problem | LayerProblem, how: How = PLAINLY) -> Answer:
        """Compute it. Inputs must come back as they were.

        Raises:
            Refused: the subject says that it cannot compute this.
        """
        ...

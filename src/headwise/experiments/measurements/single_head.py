"""One head computed by itself, from its own slices of query, key and value, beside what it says among the others; and heads whose slices are one."""

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import torch

from headwise.attention.attend import compute
from headwise.attention.weights import weights
from headwise.axes import Float, Tensor
from headwise.errors import WritesRefused
from headwise.models.runs.activation_store import stored_call
from headwise.models.runs.slicing import one_head

if TYPE_CHECKING:
    from headwise.analysis.ablation.eval_text import EvalText
    from headwise.models.capture.recorder import AttentionRecord


@dataclass(frozen=True, eq=False)
class SingleHeadCheck:
    """One text, by layer and head where not said otherwise.

    Attributes:
        gap: the largest difference of any number that the head says alone and among the others.
        allowed: what rounding may make of it: 8 ε · (8 + |scale| · max|q| · max|k|) of the layer's largest value, as a score's error is its weight's.
        distance: by layer, half the sum of differences between the patterns of two heads (total variation), mean over pairs and queries; NaN for one head.
    """

    gap: list[list[float]]
    allowed: list[list[float]]
    distance: list[float]


@torch.no_grad()
def single_head_check(passage: "EvalText") -> SingleHeadCheck:
    """Each head alone, and how far the patterns of heads are from one another; one pass."""
    found: dict[int, tuple[list[float], list[float], float]] = {}
    passage.forward.session.rerun(lambda heard: found.__setitem__(heard.index, _one_layer(heard)), [place.index for place in passage.places])
    rows = [found[place.index] for place in passage.places]
    return SingleHeadCheck([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def _one_layer(heard: "AttentionRecord") -> tuple[list[float], list[float], float]:
    asked, said = heard.request, heard.attended.output
    every = range(said.shape[1])
    gaps = [float((_alone(heard, head) - said[:1, head : head + 1].double()).abs().max()) for head in every]
    largest = abs(asked.call.scale) * float(
        torch.linalg.vector_norm(asked.query.float(), dim=-1).max() * torch.linalg.vector_norm(asked.key.float(), dim=-1).max()
    )
    slack = 8 * torch.finfo(said.dtype).eps * (8 + largest) * float(asked.value.abs().max())
    return gaps, [slack for _ in every], _distance(heard)


def _alone(heard: "AttentionRecord", head: int) -> Float[Tensor, "1 1 T E"]:
    """The definition, on this head's slices alone, in float64; it shares no code with what the pass was computed by."""
    asked = heard.request
    query, key, _, call = one_head(stored_call(heard), 0, head)
    group = head // (asked.query.shape[1] // asked.key.shape[1])
    value = asked.value[:1, group : group + 1]
    return compute(query.double(), key.double(), value.double(), call, backend="reference").output


def _distance(heard: "AttentionRecord") -> float:
    asked = heard.request
    every = weights(asked.query, asked.key, heard.attended.lse, asked.call, slice(0, asked.query.shape[2]), slice(0, asked.key.shape[2]))[0]
    pairs = [(every[one] - every[other]).abs().sum(-1).mean() / 2 for one, other in combinations(range(len(every)), 2)]
    return float(torch.stack(pairs).mean()) if pairs else float("nan")


@torch.no_grad()
def losses_tied(passage: "EvalText", layers: "list[int]") -> Float[Tensor, " n"]:
    """The loss with each of these layers tied, one at a time, and with all of them: every head says what head 0 says, as `hw.TieHeads` has it.

    Raises:
        WritesRefused: something acts on what heads say before W_O reads it.
    """
    for layer in layers:
        output = passage.forward.session.layout.sites[passage.places[layer].index].output
        if not output.exact:
            raise WritesRefused(
                f"what heads of {passage.places[layer].module} say must reach W_O as it is, got something in between (a gate?). Use hw.TieHeads."
            )
    calls = [passage.places[layer].index for layer in layers]
    outputs = [passage.forward.outputs(some, lambda call, read: read[:, :, :1].expand_as(read).contiguous(), 1) for some in ([call] for call in calls)]
    every = passage.forward.outputs(calls, lambda call, read: read[:, :, :1].expand_as(read).contiguous(), 1)
    return torch.cat([passage.loss(one, 1) for one in (*outputs, every)]).double().cpu()

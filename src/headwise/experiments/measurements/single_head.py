"""Each head computed alone from its own slices of query, key and value, compared with the model; and the loss with the heads of a layer tied."""

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
    """Numbers of one text, by layer and head unless stated otherwise.

    Attributes:
        gap: the largest absolute difference between the head's z computed alone and in the model.
        allowed: its rounding tolerance: 8 ε · (8 + |scale| · max|q| · max|k|) times the layer's largest value.
        distance: by layer, total variation between the patterns of two heads, mean over pairs and queries; NaN for a single head.
    """

    gap: list[list[float]]
    allowed: list[list[float]]
    distance: list[float]


@torch.no_grad()
def single_head_check(passage: "EvalText") -> SingleHeadCheck:
    """Compute each head alone and compare, and measure the distances between patterns, in one forward pass."""
    found: dict[int, tuple[list[float], list[float], float]] = {}
    passage.forward.session.rerun(lambda record: found.__setitem__(record.index, _one_layer(record)), [place.index for place in passage.places])
    rows = [found[place.index] for place in passage.places]
    return SingleHeadCheck([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def _one_layer(record: "AttentionRecord") -> tuple[list[float], list[float], float]:
    request, z = record.request, record.attended.output
    every = range(z.shape[1])
    gaps = [float((_alone(record, head) - z[:1, head : head + 1].double()).abs().max()) for head in every]
    largest = abs(request.call.scale) * float(
        torch.linalg.vector_norm(request.query.float(), dim=-1).max() * torch.linalg.vector_norm(request.key.float(), dim=-1).max()
    )
    slack = 8 * torch.finfo(z.dtype).eps * (8 + largest) * float(request.value.abs().max())
    return gaps, [slack for _ in every], _distance(record)


def _alone(record: "AttentionRecord", head: int) -> Float[Tensor, "1 1 T E"]:
    """The definition applied to this head's slices, in float64; shares no code with the implementation that computed the pass."""
    request = record.request
    query, key, _, call = one_head(stored_call(record), 0, head)
    group = head // (request.query.shape[1] // request.key.shape[1])
    value = request.value[:1, group : group + 1]
    return compute(query.double(), key.double(), value.double(), call, backend="reference").output


def _distance(record: "AttentionRecord") -> float:
    request = record.request
    every = weights(request.query, request.key, record.attended.lse, request.call, slice(0, request.query.shape[2]), slice(0, request.key.shape[2]))[0]
    pairs = [(every[one] - every[other]).abs().sum(-1).mean() / 2 for one, other in combinations(range(len(every)), 2)]
    return float(torch.stack(pairs).mean()) if pairs else float("nan")


@torch.no_grad()
def losses_tied(passage: "EvalText", layers: "list[int]") -> Float[Tensor, " n"]:
    """The loss with each of these layers tied, one at a time, then with all of them: every head's z is replaced by that of head 0, as in `hw.TieHeads`.

    Raises:
        WritesRefused: a module between z and W_O changes what W_O reads.
    """
    for layer in layers:
        output = passage.forward.session.layout.sites[passage.places[layer].index].output
        if not output.exact:
            raise WritesRefused(
                f"The z of {passage.places[layer].module} is changed before W_O reads it, perhaps by a gate. Use hw.TieHeads to tie these heads."
            )
    calls = [passage.places[layer].index for layer in layers]
    outputs = [passage.forward.outputs(some, lambda call, read: read[:, :, :1].expand_as(read).contiguous(), 1) for some in ([call] for call in calls)]
    every = passage.forward.outputs(calls, lambda call, read: read[:, :, :1].expand_as(read).contiguous(), 1)
    return torch.cat([passage.loss(one, 1) for one in (*outputs, every)]).double().cpu()

"""Clean and corrupt: two prompts of equal length that lead to different answers, and which heads carry the answer.

    effect_h = (metric(corrupt, with what head h said in clean) − metric(corrupt)) / (metric(clean) − metric(corrupt))

1 means that this head alone brings the clean answer back, 0 that it does nothing for it.

References: Vig et al. 2020; Meng et al. 2022; Wang et al. 2022: the logit difference as metric.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from headwise.analysis.ablation.eval_text import EvalText
from headwise.analysis.ablation.losses import real_tokens
from headwise.analysis.ablation.partial_forward import PartialForward, replace_z
from headwise.axes import Float, Int, Tensor
from headwise.errors import ArgumentError
from headwise.models.runs.places import Place

Metric = Callable[[Mapping[str, Tensor]], Tensor]  # from the model's outputs to a number a batch row


@dataclass(frozen=True, eq=False)
class PromptPair:
    """Two passages, and what is measured."""

    clean: EvalText
    corrupt: EvalText
    metric: Metric
    goal: float
    start: float


@torch.no_grad()
def pair(clean: EvalText, corrupt: EvalText, metric: Metric | None) -> PromptPair:
    """What is measured on both, before anything is patched.

    Raises:
        ArgumentError: prompts of different length, or that do not differ in what is measured.
    """
    lengths = [passage.forward.cache.wo_inputs[passage.places[0].index].shape[1] for passage in (clean, corrupt)]
    if lengths[0] != lengths[1]:
        raise ArgumentError(f"clean and corrupt must have as many tokens, got {lengths[0]} and {lengths[1]}. Change words for others of the same length.")
    chosen = metric or _difference(clean.forward, corrupt.forward)
    goal, start = (float(_measured(chosen, passage.forward, passage.forward.cache.outputs, 1)[0]) for passage in (clean, corrupt))
    if goal == start:
        raise ArgumentError(f"clean and corrupt must differ in the metric, got {goal:.4g} for both. Choose other prompts or another metric.")
    return PromptPair(clean, corrupt, chosen, goal, start)


@torch.no_grad()
def recovered(pair: PromptPair, place: Place) -> Float[Tensor, " H"]:
    """How much of the way each head of a layer brings the metric back."""
    forward, words = pair.corrupt.forward, pair.clean.forward.cache.wo_inputs[place.index]
    found = []
    for chosen in torch.eye(place.heads, dtype=torch.bool).split(pair.corrupt.at_once):
        outputs = forward.outputs([place.index], lambda call, read, chosen=chosen: replace_z(chosen, words, read), len(chosen))
        found.append(_measured(pair.metric, forward, outputs, len(chosen)))
    return (torch.cat(found).double().cpu() - pair.start) / (pair.goal - pair.start)


def _measured(metric: Metric, forward: PartialForward, outputs: Mapping[str, Tensor], times: int) -> Float[Tensor, " N"]:
    """The metric on the model's outputs, logits whole."""
    whole = dict(outputs)
    if forward.is_chunked:
        whole["logits"] = forward.logits(outputs["logits"].flatten(0, 1)).unflatten(0, outputs["logits"].shape[:2])
    found: Any = metric(whole)
    if not isinstance(found, Tensor) or found.numel() != times * forward.batch:
        got = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ArgumentError(f"metric must give a number for each of {times * forward.batch} batch rows, got {got}. Return a tensor with one axis.")
    return found.detach().reshape(times, -1).mean(1)


def _difference(clean: PartialForward, corrupt: PartialForward) -> Metric:
    """The logit of clean's answer less that of corrupt's, at the last token.

    Raises:
        ArgumentError: both lead to the same token, or the model foretells none.
    """
    if "logits" not in clean.cache.outputs or clean.cache.outputs["logits"].dim() != 3:
        raise ArgumentError("metric must be given for a model without logits for each token, got None. Pass a function of its outputs.")
    last = [_last_tokens(forward) for forward in (clean, corrupt)]
    if not torch.equal(*last):
        raise ArgumentError("clean and corrupt must end at the same positions, got different padding. Pad both alike, or leave the padding out.")
    answers = [int(forward.logits(forward.cache.outputs["logits"][0, last[0][0], None]).argmax()) for forward in (clean, corrupt)]
    if answers[0] == answers[1]:
        raise ArgumentError(f"clean and corrupt must lead to different tokens, got {answers[0]} for both. Choose other prompts, or pass metric=.")

    def difference(outputs: Mapping[str, Tensor]) -> Float[Tensor, " R"]:
        logits = outputs["logits"]
        rows = logits[range(len(logits)), last[0].repeat(len(logits) // len(last[0]))]
        return rows[:, answers[0]] - rows[:, answers[1]]

    return difference


def _last_tokens(forward: PartialForward) -> Int[Tensor, " B"]:
    """The position of each text's last token that is not padding."""
    return real_tokens(forward, forward.cache.outputs["logits"]).long().cumsum(1).argmax(1)

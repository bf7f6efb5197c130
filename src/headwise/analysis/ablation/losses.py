"""What is lost when heads are changed: a number for each copy of a text, from what the model then returns.

next      cross-entropy of the next token, mean over tokens; nats
masked    cross-entropy of tokens that were masked
kl        Σ p · log(p / p'), of the model's own distribution p over tokens against the changed p', mean over tokens; nats
cosine    1 − cos between the model's own last hidden state and the changed one, mean over tokens
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from headwise.analysis.ablation.partial_forward import PartialForward
from headwise.axes import Bool, Float, Int, Tensor
from headwise.errors import ArgumentError

CELLS = 1 << 24  # logits that are held at once
LOSSES = ("next", "masked", "kl", "cosine")
MASKED, NO_LABEL = 0.15, -100


class CrossEntropy:
    """Of labels at some places of the logits."""

    def __init__(self, forward: PartialForward, labels: Int[Tensor, "B T"]) -> None:
        self.forward = forward
        self.places = (labels.flatten() != NO_LABEL).nonzero()[:, 0]
        self.labels = labels.flatten()[self.places]
        self.tokens = len(self.places)

    def __call__(self, outputs: Mapping[str, Tensor], times: int) -> Float[Tensor, " N"]:
        final = outputs["logits"].flatten(0, 1).unflatten(0, (times, -1))
        sums = [self.each(copy).sum() for copy in final]
        return torch.stack(sums) / max(self.tokens, 1)

    def each(self, final: Float[Tensor, "R x"]) -> Float[Tensor, " n"]:
        """Of each label, from all rows of one copy."""
        step = rows_at_once(self.forward)
        parts = zip(self.places.split(step), self.labels.split(step), strict=True)
        return torch.cat([nn.functional.cross_entropy(self.forward.logits(final[rows]).float(), labels, reduction="none") for rows, labels in parts])


class Divergence:
    """Of the changed distribution over tokens from the model's own."""

    def __init__(self, forward: PartialForward, real: Bool[Tensor, "B T"]) -> None:
        self.forward, self.own = forward, forward.cache.outputs["logits"].flatten(0, 1)
        self.places = real.flatten().nonzero()[:, 0]
        self.tokens = len(self.places)

    def __call__(self, outputs: Mapping[str, Tensor], times: int) -> Float[Tensor, " N"]:
        final = outputs["logits"].flatten(0, 1).unflatten(0, (times, -1))
        found = final.new_zeros(times, dtype=torch.float32)
        for rows in self.places.split(rows_at_once(self.forward)):
            own = self.forward.logits(self.own[rows]).float().log_softmax(-1)
            for copy in range(times):
                changed = self.forward.logits(final[copy, rows]).float().log_softmax(-1)
                found[copy] += (own.exp() * (own - changed)).sum()
        return found / max(self.tokens, 1)


class Cosine:
    """How far the last hidden state turns."""

    def __init__(self, forward: PartialForward, name: str, real: Bool[Tensor, "B T"]) -> None:
        self.name, self.own, self.real = name, forward.cache.outputs[name], real.flatten()
        self.tokens = int(real.sum())

    def __call__(self, outputs: Mapping[str, Tensor], times: int) -> Float[Tensor, " N"]:
        final = outputs[self.name].unflatten(0, (times, -1))
        turned = 1 - nn.functional.cosine_similarity(final.float(), self.own.float()[None], dim=-1)
        return turned.flatten(1)[:, self.real].mean(1)


Loss = CrossEntropy | Divergence | Cosine


def rows_at_once(forward: PartialForward) -> int:
    """Rows of logits that are held at once."""
    width = forward.head.out_features if forward.is_chunked and forward.head is not None else 1
    return max(1, CELLS // width)


def loss_of(name: str, forward: PartialForward, labels: Int[Tensor, "B T"] | None = None) -> Loss:
    """The loss of this name on a pass.

    Raises:
        ArgumentError: the model's output has not what it needs.
    """
    outputs = forward.cache.outputs
    if name == "cosine":
        found = next((key for key in ("last_hidden_state", "logits") if key in outputs), None)
        found = found or next((key for key, x in outputs.items() if x.dim() == 3 and x.is_floating_point()), None)
        if found is None:
            raise ArgumentError(f"loss 'cosine' must have a vector for each token, got {', '.join(outputs) or 'no tensors'} from the model. Choose another.")
        return Cosine(forward, found, real_tokens(forward, outputs[found]))
    if "logits" not in outputs or outputs["logits"].dim() != 3:
        raise ArgumentError(f"loss {name!r} must have logits for each token, got {', '.join(outputs) or 'nothing'} from the model. Choose 'cosine'.")
    real = real_tokens(forward, outputs["logits"])
    if name == "kl":
        return Divergence(forward, real)
    return CrossEntropy(forward, next_tokens(forward, real) if labels is None else labels)


def next_tokens(forward: PartialForward, real: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The next token of each position; no label where either of the two is padding, or at the end."""
    ids = text_ids(forward.session.inputs)
    labels = torch.full_like(ids, NO_LABEL)
    labels[:, :-1] = ids[:, 1:].masked_fill(~(real[:, 1:] & real[:, :-1]), NO_LABEL)
    return labels


def text_ids(given: Mapping[str, Any]) -> Int[Tensor, "B T"]:
    """The tokens that are foretold: the decoder's, where there is one.

    Raises:
        ArgumentError: the input has no tokens.
    """
    found = given.get("decoder_input_ids", given.get("input_ids"))
    if not isinstance(found, Tensor):
        raise ArgumentError(f"loss must be one that needs no tokens, got an input of {', '.join(given)}. Choose 'kl' or 'cosine'.")
    return found


def real_tokens(forward: PartialForward, final: Float[Tensor, "B T x"]) -> Bool[Tensor, "B T"]:
    """Which tokens of the output are not padding."""
    for name in ("decoder_attention_mask", "attention_mask"):
        mask = forward.session.inputs.get(name)
        if isinstance(mask, Tensor) and mask.shape == final.shape[:2]:
            return mask.bool()
    return torch.ones(final.shape[:2], dtype=torch.bool, device=final.device)


def masked(given: Mapping[str, Any], mask: int, special: set[int], seed: int) -> tuple[dict[str, Any], Int[Tensor, "B T"]]:
    """The input with some tokens masked, and those tokens as labels: 15 % of what is no special token, one at least.

    References:
        Devlin et al. 2019, section 3.1; all that are chosen are masked here.
    """
    ids = given["input_ids"]
    plain = torch.tensor([[int(token) not in special for token in row] for row in ids], device=ids.device)
    real = given["attention_mask"].bool() if isinstance(given.get("attention_mask"), Tensor) else torch.ones_like(plain)
    draw = torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed)).to(ids.device).masked_fill(~(plain & real), 2.0)
    chosen = (draw < MASKED) | (draw == draw.min())
    chosen &= plain & real
    return {**given, "input_ids": ids.masked_fill(chosen, mask)}, ids.masked_fill(~chosen, NO_LABEL)

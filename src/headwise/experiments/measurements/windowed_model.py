"""A model whose tokens see a window only, with or without the first tokens: the experiment of Xiao et al. 2023, by a mask.

query at p sees key j when |p − j| < window, or j < first       positions stay as they are: no cache is rolled
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.ablation.losses import NO_LABEL, CrossEntropy, Loss, next_tokens, real_tokens
from headwise.analysis.ablation.partial_forward import PartialForward
from headwise.axes import Bool, Tensor
from headwise.models.capture.attention_request import AttentionRequest, MaskIntersection, TensorMask
from headwise.models.capture.call_hooks import hook_calls
from headwise.models.hooks.derived_model import derive_model
from headwise.models.model_info import is_encoder_decoder

if TYPE_CHECKING:
    from torch import nn

    from headwise.analysis.ablation.eval_text import EvalText


def windowed(hf: "nn.Module", modules: Sequence[str], window: int, first: int) -> Any:
    """The model with these attention modules seeing a window of so many tokens, and besides it the first ones; it shares all tensors."""
    other = derive_model(hf)
    hook_calls(other, dict.fromkeys(modules, partial(_narrowed, window=window, first=first)))
    return other


def _narrowed(request: AttentionRequest, window: int, first: int) -> AttentionRequest:
    seen = TensorMask(within(request, window, first))
    return replace(request, call=replace(request.call, mask=seen if request.call.mask is None else MaskIntersection(seen, request.call.mask)))


def within(request: AttentionRequest, window: int, first: int) -> Bool[Tensor, "B 1 T S"]:
    """Who is in whose window."""
    queries, keys = request.query.shape[2], request.key.shape[2]
    here = request.call.offset[:, None] + torch.arange(queries, device=request.query.device)
    there = torch.arange(keys, device=request.query.device)
    return (((here[..., None] - there).abs() < window) | (there < first))[:, None]


def losses_in_windows(passage: "EvalText", models: Sequence["nn.Module"], window: int) -> list[float]:
    """The loss of the text: of the model as it is, then of each narrowed one; for "next" of the tokens behind the first window alone, as all narrower ones "
    "see the same."""
    loss = behind(passage, window)
    ways = (passage.forward.reuses, passage.forward.copies)
    own = float(loss(passage.forward.cache.outputs, 1))
    others = [PartialForward(replace(passage.forward.session, hf=model), ways) for model in models]
    return [own, *(float(loss(other.cache.outputs, 1)) for other in others)]


def behind(passage: "EvalText", window: int) -> Loss:
    """The passage's loss, of the tokens that the first window does not reach, where it is about single tokens."""
    forward = passage.forward
    if not isinstance(passage.loss, CrossEntropy) or is_encoder_decoder(forward.session.hf):
        return passage.loss  # what an encoder sees less of is every token of the decoder's
    labels = next_tokens(forward, real_tokens(forward, forward.cache.outputs["logits"]))
    if len(passage.loss.labels) != int((labels != NO_LABEL).sum()):
        return passage.loss  # of masked tokens: they see both ways
    labels[:, : window - 1] = NO_LABEL
    return CrossEntropy(forward, labels)

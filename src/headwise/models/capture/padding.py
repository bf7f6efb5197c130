"""Which tokens of an attention call are padding, also where its own mask does not state it: the model computes its attention, or built the mask, itself."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

import torch

from headwise.attention.call import tile_of
from headwise.axes import Bool, Tensor
from headwise.models.capture.attention_request import AttentionRequest


def with_padding(request: AttentionRequest, inputs: Mapping[str, Any], module: str, cross: bool, has_decoder: bool) -> AttentionRequest:
    """The request with the padding of its keys and of its queries, from the masks that the model was given for as many tokens.

    A mask counts for the keys only if the call hides its padding from every real token: windows, patches and memories may be as many as the tokens.

    Args:
        inputs: the model's keyword arguments.
        module: the calling module's name.
        cross: the keys are other tokens than the queries.
        has_decoder: the model is an encoder and a decoder.
    """
    batch, _, queries, _ = request.query.shape
    keys = request.key.shape[2]
    of_decoder = has_decoder and "decoder" in module
    own = _mask(inputs, "decoder_attention_mask" if of_decoder else "attention_mask", batch, queries)
    real = request.padding
    if real is None:
        stated = _mask(inputs, "attention_mask", batch, keys) if cross else own if queries == keys else None
        real = stated if stated is not None and _hides(request, stated, None if cross else stated) else None
    if cross:
        return replace(request, padding=real, query_padding=own if of_decoder else None)
    return replace(request, padding=real, query_padding=real if queries == keys else None)


def _mask(inputs: Mapping[str, Any], name: str, batch: int, length: int) -> Bool[Tensor, "B S"] | None:
    """A mask of the input that hides some of so many tokens, and not all of any row."""
    mask = inputs.get(name)
    if not isinstance(mask, Tensor) or tuple(mask.shape) != (batch, length):
        return None
    real = mask.bool()
    return real if not bool(real.all()) and bool(real.any(-1).all()) else None


def _hides(request: AttentionRequest, real: Bool[Tensor, "B S"], real_queries: Bool[Tensor, "B T"] | None) -> bool:
    """Whether no real query sees a key that is not real."""
    queries = request.query.shape[2]
    device = request.key.device
    for batch, row in enumerate(real.to(device)):
        padding = (~row).nonzero().flatten()
        if not len(padding):
            continue
        keys = slice(int(padding[0]), int(padding[-1]) + 1)
        shown = torch.ones(1, queries, keys.stop - keys.start, dtype=torch.bool, device=device)
        if request.call.causal:
            shown &= torch.arange(queries, device=device)[:, None] + request.call.offset[batch] >= torch.arange(keys.start, keys.stop, device=device)
        for plane in (request.call.mask, request.call.bias):
            if plane is not None:
                tile = tile_of(plane, slice(0, queries), keys)
                tile = tile[batch if tile.shape[0] > 1 else 0]
                shown = shown & (tile > -inf if tile.is_floating_point() else tile)
        shown = shown[..., ~row[keys]]
        if bool((shown if real_queries is None else shown[:, real_queries[batch].to(device)]).any()):
            return False
    return True

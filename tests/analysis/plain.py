"""Ablation by hand: a copy of the model with a head's part of W_O set to zero, and the plain loss of transformers."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

OUTPUTS = {
    "gpt2": "transformer.h.{}.attn.c_proj",
    "llama": "model.layers.{}.self_attn.o_proj",
    "gemma2": "model.layers.{}.self_attn.o_proj",
    "opt": "model.decoder.layers.{}.self_attn.out_proj",
    "bert": "bert.encoder.layer.{}.attention.output.dense",
    "t5": "decoder.block.{}.layer.1.EncDecAttention.o",
}


def output_of(hf: nn.Module, family: str, layer: int) -> nn.Module:
    return hf.get_submodule(OUTPUTS[family].format(layer))


def without(hf: nn.Module, family: str, heads: list[tuple[int, int]], count: int = 6) -> nn.Module:
    """A copy in which these heads add nothing."""
    other = copy.deepcopy(hf)
    with torch.no_grad():
        for layer, head in heads:
            module = output_of(other, family, layer)
            weight = module.weight if isinstance(module, Conv1D) else module.weight.t()
            weight.unflatten(0, (count, -1))[head] = 0
    return other


def loss(hf: nn.Module, given: Mapping[str, Any]) -> float:
    """Cross-entropy of the next token, in float64, padding left out."""
    with torch.no_grad():
        logits = hf(**given).logits.double()
    ids = given.get("decoder_input_ids", given["input_ids"])
    mask = given.get("decoder_attention_mask") if "decoder_input_ids" in given else given.get("attention_mask")
    labels = ids[:, 1:] if mask is None else ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
    return float(nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels.flatten()))


def sliced_behind(hf: nn.Module, family: str, layer: int, head: int, given: Mapping[str, Any], count: int = 6) -> float:
    """What published code does: the head's slice of what comes out of W_O set to zero, which is a mixture of all heads."""

    def cut(module: nn.Module, args: Any, result: Tensor) -> Tensor:
        found = result.clone()
        found.unflatten(-1, (count, -1))[..., head, :] = 0
        return found

    handle = output_of(hf, family, layer).register_forward_hook(cut)
    try:
        return loss(hf, given)
    finally:
        handle.remove()

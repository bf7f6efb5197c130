"""A request for generation (how many tokens, which end tokens), and the inputs that text and new tokens make together."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import GenerationConfig

from headwise.axes import Bool, Int, Tensor
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.models.generation.greedy_generation import GenerationPlan
from headwise.models.inputs.encoding import max_positions
from headwise.models.model_info import is_encoder_decoder

OWN_INPUTS = ("position_ids",)  # generation counts positions itself, from the attention mask


def check_generates(hf: nn.Module, max_new_tokens: int) -> None:
    """Check that a model generates text, and that the number of tokens is one.

    Raises:
        ModelError: it does not generate.
        ArgumentError: not a number of tokens.
    """
    if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int):
        raise ArgumentTypeError(f"max_new_tokens must be an int, got {type(max_new_tokens).__name__}.")
    if max_new_tokens < 1:
        raise ArgumentError(f"max_new_tokens must be at least 1, got {max_new_tokens}. Use run for the text alone.")
    if not getattr(hf, "can_generate", lambda: False)():
        raise ModelError(f"a model must have a language head to generate, got {type(hf).__name__}. Open the class for causal or conditional generation.")


def plan_generation(hf: Any, inputs: Mapping[str, Any], max_new_tokens: int) -> tuple[GenerationPlan, GenerationConfig]:
    """Plan a greedy generation with the model's own cache; no forced or suppressed tokens.

    Raises:
        ArgumentError: more tokens than the model has positions for.
    """
    own = hf.generation_config
    ends = own.eos_token_id
    pad = next((x for x in (own.pad_token_id, _first(ends)) if x is not None), 0)
    config = GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=False,
        num_beams=1,
        use_cache=True,
        pad_token_id=pad,
        bos_token_id=own.bos_token_id,
        decoder_start_token_id=next((x for x in (own.decoder_start_token_id, own.bos_token_id, own.pad_token_id) if x is not None), 0),
    )
    decoder = is_encoder_decoder(hf)
    prompt, limit = inputs.get("input_ids"), max_positions(hf)
    if prompt is not None and not decoder and limit is not None and prompt.shape[1] + max_new_tokens > limit:
        raise ArgumentError(f"text and new tokens must fit the model's {limit} positions, got {prompt.shape[1]} + {max_new_tokens}. Ask for fewer.")
    text_inputs = {name: x for name, x in inputs.items() if name not in OWN_INPUTS and not (decoder and name.startswith("decoder_"))}
    start = 1 if decoder else 0 if prompt is None else prompt.shape[1]
    ends = () if ends is None else tuple(ends) if isinstance(ends, list) else (ends,)
    return GenerationPlan(text_inputs, start, start + max_new_tokens, ends, pad), config


def full_inputs(hf: Any, inputs: Mapping[str, Any], plan: GenerationPlan, ids: Int[Tensor, "B T"]) -> tuple[dict[str, Any], Bool[Tensor, "B T"]]:
    """The inputs of a run over the text and its continuation; and which tokens are real.

    Rows that end earlier than others are padding after their end.
    """
    real = _real(ids, plan)
    if is_encoder_decoder(hf):
        return {**plan.inputs, "decoder_input_ids": ids, **({} if bool(real.all()) else {"decoder_attention_mask": real.long()})}, real
    mask = inputs.get("attention_mask")
    if mask is not None and mask.dim() == 2 and plan.start:
        real[:, : plan.start] &= mask.bool()
    found = {**plan.inputs, "input_ids": ids, "attention_mask": real.long()}
    if "position_ids" in inputs:
        found["position_ids"] = (found["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return found, real


def cache_disagreement(inputs: Mapping[str, Any], logits: Tensor | None, start: int) -> str | None:
    """A note, where one pass over the whole text would have chosen another token than the passes with the cache did."""
    name = "decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"
    ids = inputs[name]
    if logits is None or logits.shape[:2] != ids.shape:
        return None
    mask = inputs.get("decoder_attention_mask" if name == "decoder_input_ids" else "attention_mask")
    other = logits[:, start - 1 : -1].argmax(-1) != ids[:, start:]
    if mask is not None:
        other &= mask[:, start:].bool()
    if not bool(other.any()):
        return None
    row, step = (int(x) for x in other.nonzero()[0])
    return f"new token {step} of batch row {row} would be another without the cache: two tokens are equally likely within rounding"


def _real(ids: Int[Tensor, "B T"], plan: GenerationPlan) -> Bool[Tensor, "B T"]:
    """True up to and with the first new token that ends the text."""
    ended = torch.isin(ids, torch.tensor(plan.ends, dtype=ids.dtype, device=ids.device))
    ended[:, : plan.start] = False
    return ended.cumsum(-1) - ended.long() == 0


def _first(x: Any) -> int | None:
    return x[0] if isinstance(x, list) else x

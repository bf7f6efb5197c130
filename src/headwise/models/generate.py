"""Greedy generation with the model's own cache, and a run over all that was read and written."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from headwise.axes import Bool, Int, Tensor
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.models.inputs import positions
from headwise.models.kind import implementation_of, is_encoder_decoder
from headwise.models.session import explained
from headwise.models.twin import twin

OWN = ("position_ids",)  # generation counts positions by itself, from the attention mask


def check_generates(hf: nn.Module, max_new_tokens: int) -> None:
    """Whether a model writes text, and so many tokens.

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


def generated(hf: Any, given: Mapping[str, Any], max_new_tokens: int) -> dict[str, Any]:
    """The inputs of a run over the text and what the model goes on with: greedy, with its cache.

    Rows that end earlier than others are padding after their end.
    """
    from transformers import GenerationConfig
    from transformers.generation.utils import GenerationMixin

    own = hf.generation_config
    pad = next((x for x in (own.pad_token_id, _first(own.eos_token_id)) if x is not None), 0)
    config = GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=False,
        num_beams=1,
        use_cache=True,
        pad_token_id=pad,
        eos_token_id=own.eos_token_id,
        bos_token_id=own.bos_token_id,
        decoder_start_token_id=own.decoder_start_token_id,
    )
    prompt = given.get("input_ids")
    limit = positions(hf)
    if prompt is not None and not is_encoder_decoder(hf) and limit is not None and prompt.shape[1] + max_new_tokens > limit:
        raise ArgumentError(f"text and new tokens must fit the model's {limit} positions, got {prompt.shape[1]} + {max_new_tokens}. Ask for fewer.")
    other = twin(hf, implementation_of(hf))
    other.generation_config = config  # no forced or suppressed tokens: the likeliest token, always
    inputs = {name: x for name, x in given.items() if name not in OWN and not (is_encoder_decoder(hf) and name.startswith("decoder_"))}
    with torch.inference_mode(False), torch.no_grad():
        ids = explained(hf, lambda: GenerationMixin.generate(other, **inputs, generation_config=config))  # pyright: ignore[reportAttributeAccessIssue]
    if is_encoder_decoder(hf):
        return {**inputs, "decoder_input_ids": ids, **_mask("decoder_attention_mask", _real(ids, 1, own.eos_token_id))}
    start = 0 if prompt is None else prompt.shape[1]
    real = _real(ids, start, own.eos_token_id)
    mask = given.get("attention_mask")
    if mask is not None and start:
        real[:, :start] &= mask.bool()
    found = {**inputs, "input_ids": ids, "attention_mask": real.long()}
    if "position_ids" in given:
        found["position_ids"] = (found["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return found


def disagreement(given: Mapping[str, Any], logits: Tensor | None, start: int) -> str | None:
    """A note, where the pass over the whole text would have gone on otherwise than the passes with the cache did."""
    name = "decoder_input_ids" if "decoder_input_ids" in given else "input_ids"
    ids = given[name]
    if logits is None or logits.shape[:2] != ids.shape:
        return None
    mask = given.get("decoder_attention_mask" if name == "decoder_input_ids" else "attention_mask")
    other = logits[:, start - 1 : -1].argmax(-1) != ids[:, start:]
    if mask is not None:
        other &= mask[:, start:].bool()
    if not bool(other.any()):
        return None
    row, step = (int(x) for x in other.nonzero()[0])
    return f"new token {step} of batch row {row} would be another without the cache: two tokens are equally likely within rounding"


def _real(ids: Int[Tensor, "B T"], start: int, ends: int | list[int] | None) -> Bool[Tensor, "B T"]:
    """True up to and with the first token after `start` that ends the text."""
    ended = torch.isin(ids, torch.tensor([] if ends is None else ends, dtype=ids.dtype, device=ids.device).reshape(-1))
    ended[:, :start] = False
    return ended.cumsum(-1) - ended.long() == 0


def _mask(name: str, real: Tensor) -> dict[str, Tensor]:
    return {} if bool(real.all()) else {name: real.long()}


def _first(x: Any) -> int | None:
    return x[0] if isinstance(x, list) else x

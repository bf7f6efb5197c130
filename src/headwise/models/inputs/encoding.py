"""From text, texts, token ids or a model's own inputs to the tensors of one pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, StaticCache
from transformers.utils.generic import TransformersKwargs

from headwise.axes import Int, Tensor
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.models.inputs.token_text import token_texts
from headwise.models.model_info import device_of, is_encoder_decoder, main_input, text_config

RunInput = str | Sequence[str] | Tensor | Mapping[str, Any]  # a text, texts, token ids [T] or [B, T], or the model's own keyword arguments

REFUSED = {
    "cache": "A run reads the whole input at once: pass all of it.",
    "past_key_values": "A run reads the whole input at once: pass all of it.",
    "output_attentions": "A run has every weight: ask run.weights.",
    "use_cache": "A run reads the whole input at once: leave it out.",
    "return_dict": "Leave it out.",
}


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """The tensors of one pass.

    Attributes:
        kwargs: the model's keyword arguments.
        tokens: of the main input, one list a batch row; empty for an input that has none.
        decoder_tokens: of a decoder's input.
        notes: what a reader should know about how they were made.
    """

    kwargs: Mapping[str, Any]
    tokens: list[list[str]]
    decoder_tokens: list[list[str]] | None = None
    notes: tuple[str, ...] = ()


def encode(hf: nn.Module, tokenizer: Any, inputs: Any) -> ModelInputs:
    """The inputs that this means.

    Args:
        inputs: a text, a list of texts, token ids [T] or [B, T], or a dict of the model's own inputs.

    Raises:
        ArgumentError: nothing to read, too long for the model, or a keyword that a run cannot honour.
        ArgumentTypeError: none of these kinds.
        ModelError: a text, and no tokenizer; or a model without numbers, on the meta device.
    """
    _check_has_numbers(hf)
    notes: tuple[str, ...] = ()
    if isinstance(inputs, str):
        kwargs = _texts(hf, tokenizer, [inputs])
    elif isinstance(inputs, Tensor):
        kwargs = {main_input(hf): _ids(inputs) if isinstance(hf, PreTrainedModel) else inputs}
    elif isinstance(inputs, Mapping):
        kwargs = _named(inputs)
        _check_names(hf, kwargs)
    elif isinstance(inputs, Sequence) and inputs and all(isinstance(text, str) for text in inputs):
        kwargs = _texts(hf, tokenizer, inputs)
    elif isinstance(inputs, Sequence) and not inputs:
        raise ArgumentError("input must hold at least one text, got an empty list. Pass a text.")
    else:
        raise ArgumentTypeError(f"input must be a text, a list of texts, a tensor of token ids or a dict of tensors, got {type(inputs).__name__}.")
    device = device_of(hf)
    kwargs = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in kwargs.items()}
    if is_encoder_decoder(hf) and not isinstance(inputs, Mapping):
        kwargs |= _same_for_the_decoder(hf, kwargs)
        notes = ("the decoder reads the input too, shifted by one token: pass a dict with decoder_input_ids to give it another text",)
    _check_lengths(hf, kwargs)
    return ModelInputs(kwargs, _rows_of_tokens(tokenizer, kwargs, ""), _rows_of_tokens(tokenizer, kwargs, "decoder_") or None, notes)


def _check_has_numbers(hf: nn.Module) -> None:
    """Check that the model has numbers to compute with; those that accelerate offloads are loaded as the model runs.

    Raises:
        ModelError: it is on the meta device.
    """
    empty = [name for name, x in (*hf.named_parameters(), *hf.named_buffers()) if x.is_meta]
    if empty and not any(hasattr(module, "_hf_hook") for module in hf.modules()):
        raise ModelError(
            f"{type(hf).__name__} is on the meta device, where tensors have shapes and no numbers ({empty[0]} is one of {len(empty)}). "
            "Load its weights first, with from_pretrained or load_state_dict(..., assign=True)."
        )


def _texts(hf: nn.Module, tokenizer: Any, texts: Sequence[str]) -> dict[str, Tensor]:
    """Each text made ids by itself, then padded on the tokenizer's side; the tokenizer is left as it is."""
    if tokenizer is None:
        raise ModelError("This model has no tokenizer to read text with. Pass tokenizer= to open_model, or give token ids.")
    for text in texts:
        if not text.strip():
            raise ArgumentError(f"text must have at least one token, got {text!r}. Write something.")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ArgumentError(f"text must be Unicode, got {text!r} with half a surrogate pair. Read its file with the right encoding.")
    encoded = [dict(tokenizer(text)) for text in texts]
    for text, one in zip(texts, encoded, strict=True):
        if not one["input_ids"]:
            raise ArgumentError(f"text must have at least one token, got {text!r}, which the tokenizer drops. Write something else.")
    length = max(len(one["input_ids"]) for one in encoded)
    left = getattr(tokenizer, "padding_side", "right") == "left"
    pad = next((x for x in (tokenizer.pad_token_id, tokenizer.eos_token_id) if x is not None), 0)
    rows: dict[str, list[list[int]]] = {name: [] for name in encoded[0] if name in ("input_ids", "attention_mask", "token_type_ids")}
    rows.setdefault("attention_mask", [])
    for one in encoded:
        one.setdefault("attention_mask", [1] * len(one["input_ids"]))
        for name, lists in rows.items():
            fill = [pad if name == "input_ids" else 0] * (length - len(one[name]))
            lists.append(fill + list(one[name]) if left else list(one[name]) + fill)
    kwargs = {name: torch.tensor(lists) for name, lists in rows.items()}
    accepted = signature(hf.forward).parameters
    if left and len(texts) > 1 and "position_ids" in accepted and not is_encoder_decoder(hf):
        kwargs["position_ids"] = (kwargs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return {name: x for name, x in kwargs.items() if name in accepted}


def _ids(ids: Tensor) -> Int[Tensor, "B T"]:
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise ArgumentTypeError(f"token ids must be ints, got {ids.dtype}. Pass other inputs in a dict, by the model's own names.")
    if ids.dim() not in (1, 2):
        raise ArgumentError(f"token ids must have shape [tokens] or [batch, tokens], got {list(ids.shape)}. Reshape them.")
    if ids.numel() == 0:
        raise ArgumentError(f"token ids must hold at least one token, got shape {list(ids.shape)}. Pass some.")
    return ids.long().reshape(1, -1) if ids.dim() == 1 else ids.long()


def _named(inputs: Mapping[str, Any]) -> dict[str, Any]:
    if not inputs:
        raise ArgumentError("input must name at least one tensor, got an empty dict. Pass input_ids, say.")
    for name, x in inputs.items():
        if name == "past_key_values" and isinstance(x, StaticCache):
            raise ArgumentError(
                "input must not hold a StaticCache: a run reads the whole input at once and starts from no cache, of fixed size or not. "
                "Leave past_key_values out."
            )
        if name in REFUSED and x is not None and x is not False:
            raise ArgumentError(f"input must not hold {name!r}, got {type(x).__name__}. {REFUSED[name]}")
        if isinstance(x, Tensor) and x.numel() == 0:
            raise ArgumentError(f"{name} must hold at least one number, got shape {list(x.shape)}. Pass some.")
    return {name: x for name, x in inputs.items() if name not in REFUSED}


def _check_names(hf: Any, kwargs: Mapping[str, Any]) -> None:
    """Whether some part of the model reads each name: many models swallow what they do not know."""
    unknown = [name for name in kwargs if name not in signature(hf.forward).parameters]
    if not unknown:
        return
    read = {name for module in hf.modules() for name in signature(module.forward).parameters} | set(TransformersKwargs.__annotations__)
    for name in unknown:
        if name not in read:
            raise ArgumentError(f"input must hold names that the model reads, got {name!r}, which no part of {type(hf).__name__} does. Correct it.")


def _same_for_the_decoder(hf: Any, kwargs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The input itself, shifted right behind the decoder's start token, as in training to reproduce it."""
    ids = kwargs["input_ids"]
    stated = (getattr(hf.config, name, None) for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"))
    start = next((x for x in stated if x is not None), 0)
    found = {"decoder_input_ids": torch.cat([torch.full_like(ids[:, :1], start), ids[:, :-1]], 1)}
    mask = kwargs.get("attention_mask")
    if mask is not None and not bool(mask.all()):
        found["decoder_attention_mask"] = torch.cat([torch.ones_like(mask[:, :1]), mask[:, :-1]], 1)
    return found


def _check_lengths(hf: nn.Module, kwargs: Mapping[str, Any]) -> None:
    limit = max_positions(hf)
    vocabulary = _vocabulary(hf)
    for name in ("input_ids", "decoder_input_ids"):
        ids = kwargs.get(name)
        if not isinstance(ids, Tensor):
            continue
        if limit is not None and ids.shape[1] > limit:
            raise ArgumentError(f"text must fit the model's {limit} positions, got {ids.shape[1]} tokens. Shorten it.")
        if name == "input_ids" and vocabulary is not None and not bool(((ids >= 0) & (ids < vocabulary.num_embeddings)).all()):
            raise ArgumentError(f"{name} must be in 0..{vocabulary.num_embeddings - 1}, got {int(ids.min())}..{int(ids.max())}. Use the model's own tokenizer.")


def _vocabulary(hf: nn.Module) -> torch.nn.Embedding | None:
    """The table that turns ids into vectors; None where a model has none, or several."""
    if not isinstance(hf, PreTrainedModel):
        return None
    try:
        found = hf.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return None
    return found if isinstance(found, torch.nn.Embedding) else None


def max_positions(hf: nn.Module) -> int | None:
    """How many tokens the model has positions for; None where there is no limit."""
    config = text_config(hf)
    limit = getattr(config, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit < 1:  # XLNet has -1: no limit
        return None
    for name, module in hf.named_modules():
        if isinstance(module, torch.nn.Embedding) and name.endswith("position_embeddings") and module.padding_idx is not None and limit is not None:
            limit = min(limit, module.num_embeddings - module.padding_idx - 1)  # RoBERTa counts its positions from padding_idx + 1
    return limit


def _rows_of_tokens(tokenizer: Any, kwargs: Mapping[str, Any], name: str) -> list[list[str]]:
    """The tokens of each batch row as text, padding marked as such; no rows for an input that has no token ids."""
    ids, mask = kwargs.get(f"{name}input_ids"), kwargs.get(f"{name}attention_mask")
    if not isinstance(ids, Tensor):
        return []
    real = mask.bool().tolist() if isinstance(mask, Tensor) and mask.shape == ids.shape else [None] * len(ids)
    return [token_texts(tokenizer, row, keep) for row, keep in zip(ids.tolist(), real, strict=True)]

"""Whisper tiny.en (OpenAI, MIT), stored in float16 for CTranslate2: speech in, English text out.

CTranslate2 stores query, key and value of self-attention as one matrix, and key and value of cross-attention as another;
transformers keeps them apart. The key's bias, which Whisper does not have, is stored as zeros.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from headwise.models.loading.demo import Demo

LAYERS, HEADS, START, END = 4, 6, 50257, 50256


def convert(source: Path, folder: Path) -> None:
    """Write a directory that transformers loads: weights in float32, each exactly as stored."""
    from transformers import PreTrainedTokenizerFast, WhisperConfig

    from headwise.models.loading.ctranslate2 import variables

    stored = {name: torch.from_numpy(x.astype(np.float32)) for name, x in variables(source / "model" / "model.bin").items() if x.ndim}
    weights = {name: x.contiguous() for name, x in _weights(stored)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    WhisperConfig(
        architectures=["WhisperForConditionalGeneration"],
        vocab_size=weights["model.decoder.embed_tokens.weight"].shape[0],
        d_model=384,
        num_mel_bins=80,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        decoder_start_token_id=START,
        bos_token_id=END,
        eos_token_id=END,
        pad_token_id=END,
    ).save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(source / "model" / "tokenizer.json"), eos_token="<|endoftext|>", pad_token="<|endoftext|>")
    tokenizer.save_pretrained(folder)


def _weights(stored: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    for side in ("encoder", "decoder"):
        for i in range(LAYERS):
            old, new = f"{side}/layer_{i}", f"model.{side}.layers.{i}"
            yield from _self(stored, f"{old}/self_attention", f"{new}.self_attn")
            yield from _norm(stored, f"{old}/self_attention/layer_norm", f"{new}.self_attn_layer_norm")
            if side == "decoder":
                yield from _cross(stored, f"{old}/attention", f"{new}.encoder_attn")
                yield from _norm(stored, f"{old}/attention/layer_norm", f"{new}.encoder_attn_layer_norm")
            yield from _norm(stored, f"{old}/ffn/layer_norm", f"{new}.final_layer_norm")
            for j in (0, 1):
                yield from _linear(stored, f"{old}/ffn/linear_{j}", f"{new}.fc{j + 1}")
        yield from _norm(stored, f"{side}/layer_norm", f"model.{side}.layer_norm")
        yield f"model.{side}.embed_positions.weight", stored[f"{side}/position_encodings/encodings"]
    for conv in ("conv1", "conv2"):
        yield from _linear(stored, f"encoder/{conv}", f"model.encoder.{conv}")
    yield "model.decoder.embed_tokens.weight", stored["decoder/embeddings/weight"]


def _linear(stored: dict[str, torch.Tensor], old: str, new: str) -> Iterator[tuple[str, torch.Tensor]]:
    yield f"{new}.weight", stored[f"{old}/weight"]
    yield f"{new}.bias", stored[f"{old}/bias"]


def _norm(stored: dict[str, torch.Tensor], old: str, new: str) -> Iterator[tuple[str, torch.Tensor]]:
    yield f"{new}.weight", stored[f"{old}/gamma"]
    yield f"{new}.bias", stored[f"{old}/beta"]


def _self(stored: dict[str, torch.Tensor], old: str, new: str) -> Iterator[tuple[str, torch.Tensor]]:
    names = ("q_proj", "k_proj", "v_proj")
    yield from _parts(stored, f"{old}/linear_0", [f"{new}.{name}" for name in names])
    yield from _linear(stored, f"{old}/linear_1", f"{new}.out_proj")


def _cross(stored: dict[str, torch.Tensor], old: str, new: str) -> Iterator[tuple[str, torch.Tensor]]:
    yield from _linear(stored, f"{old}/linear_0", f"{new}.q_proj")
    yield from _parts(stored, f"{old}/linear_1", [f"{new}.k_proj", f"{new}.v_proj"])
    yield from _linear(stored, f"{old}/linear_2", f"{new}.out_proj")


def _parts(stored: dict[str, torch.Tensor], old: str, names: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Matrices stored one below the other; a key has no bias."""
    weights, biases = stored[f"{old}/weight"].chunk(len(names)), stored[f"{old}/bias"].chunk(len(names))
    for name, weight, bias in zip(names, weights, biases, strict=True):
        yield f"{name}.weight", weight
        if not name.endswith("k_proj"):
            yield f"{name}.bias", bias


ENTRY = Demo(convert, note="the weights of demo:whisper were rounded to 16 bits by their publisher; they are shown as rounded, in float32")

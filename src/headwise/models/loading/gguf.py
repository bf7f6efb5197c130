"""A Llama stored as GGUF, written out as a directory that transformers loads: every weight exactly as it dequantises, in float32.

A 4-bit block stores w = d·n + m with d and m in float16 and n in 0..15; the sum needs more digits than float16 has, and
float32 holds it. GGUF pairs the two halves of each query and key head row by row for its rotary positions; transformers
keeps the halves apart, so those rows are put back.

References: the GGUF specification, and `convert_hf_to_gguf.py` of llama.cpp, whose permutation is undone here.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

from headwise.errors import CheckpointError, MissingPackage

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert(source: Path, folder: Path) -> None:
    """Write the model's directory, with a progress bar: half a minute for 135 million weights."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"Reading {source.stem}", total=None)
        reader = _reader(source)
        progress.update(task, description="Converting it, once", total=len(reader.tensors))
        write_weights(reader, folder / "model.safetensors", lambda: progress.advance(task))
        (folder / "config.json").write_text(json.dumps(config_of(reader), indent=2), encoding="utf-8")
        progress.update(task, description="Converting its tokenizer", total=None)
        AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


def write_weights(reader: Any, target: Path, done: Callable[[], None]) -> None:
    """Dequantise every tensor; `done` is called after each."""
    heads, groups = _field(reader, "llama.attention.head_count"), _field(reader, "llama.attention.head_count_kv")
    weights: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        array = _gguf().quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if ".attn_q." in tensor.name or ".attn_k." in tensor.name:
            array = unpermute_halves(array, heads if ".attn_q." in tensor.name else groups)
        weights[name_of(tensor.name)] = torch.from_numpy(np.ascontiguousarray(array))
        done()
    save_file(weights, target, metadata={"format": "pt"})


def name_of(stored: str) -> str:
    """The name that transformers has for a tensor.

    Example:
        >>> name_of("blk.3.attn_q.weight"), name_of("output_norm.weight")
        ('model.layers.3.self_attn.q_proj.weight', 'model.norm.weight')
    """
    words = stored.split(".")
    known = NAMES.get(words[-2])
    if known is None:
        raise CheckpointError(f"a GGUF tensor must be one of a Llama's, got {stored!r}. Other models cannot be converted.")
    return f"model.layers.{words[1]}.{known}.{words[-1]}" if words[0] == "blk" else f"{known}.{words[-1]}"


def unpermute_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from pairs (0, D/2, 1, D/2 + 1, ...) back to halves (0, 1, ..., D/2, D/2 + 1, ...)."""
    width = rows.shape[0] // heads
    return rows.reshape(heads, width // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def config_of(reader: Any) -> dict[str, Any]:
    """transformers' config.json for the same model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _field(reader, "llama.embedding_length"),
        "intermediate_size": _field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": _field(reader, "llama.block_count"),
        "num_attention_heads": _field(reader, "llama.attention.head_count"),
        "num_key_value_heads": _field(reader, "llama.attention.head_count_kv"),
        "max_position_embeddings": _field(reader, "llama.context_length"),
        "rms_norm_eps": _field(reader, "llama.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": _field(reader, "llama.rope.freq_base")},
        "vocab_size": _field(reader, "llama.vocab_size"),
        "bos_token_id": _field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _field(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": _field(reader, "tokenizer.ggml.padding_token_id"),
        "tie_word_embeddings": "output.weight" not in {tensor.name for tensor in reader.tensors},
        "hidden_act": "silu",
        "dtype": "float32",
    }


def _reader(source: Path) -> Any:
    try:
        return _gguf().GGUFReader(source)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{source.name} must be a whole GGUF file, got {type(error).__name__}: {error}. Install its package again.") from None


def _field(reader: Any, name: str) -> Any:
    return reader.fields[name].contents()


def _gguf() -> Any:
    try:
        import gguf
    except ImportError:
        raise MissingPackage("a GGUF file must have the package gguf to be read, got none. pip install 'headwise[demo]'") from None
    return gguf

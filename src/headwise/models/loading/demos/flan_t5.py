"""flan-T5-small, tuned to write titles (traceforge, MIT; base Apache-2.0), stored as two ONNX graphs with 8-bit weights.

A quantised weight is w = (n - zero) · scale. Graphs name a weight by the node that uses it, whose path is transformers' own.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from headwise.errors import MissingPackage
from headwise.models.loading.demo import Demo

SIDES = {"encoder": ("enc.", "encoder."), "decoder": ("m.", "")}


def convert(source: Path, folder: Path) -> None:
    """Write a directory that transformers loads: weights as they dequantise, in float32."""
    from transformers import PreTrainedTokenizerFast, T5Config

    weights: dict[str, torch.Tensor] = {}
    data = source / "data" / "span"
    for side, (old, new) in SIDES.items():
        weights |= {name.replace(old, new, 1): x for name, x in _weights(data / f"{side}.onnx").items()}
    shared = weights.pop("encoder.embed_tokens.weight")
    weights.pop("decoder.embed_tokens.weight", None)
    save_file({"shared.weight": shared, **weights}, folder / "model.safetensors", metadata={"format": "pt"})
    T5Config(
        architectures=["T5ForConditionalGeneration"],
        vocab_size=shared.shape[0],
        d_model=512,
        d_kv=64,
        d_ff=1024,
        num_layers=8,
        num_decoder_layers=8,
        num_heads=6,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,  # pyright: ignore[reportCallIssue]
        decoder_start_token_id=0,  # pyright: ignore[reportCallIssue]
        pad_token_id=0,
        eos_token_id=1,
    ).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_file=str(data / "tokenizer.json"), eos_token="</s>", pad_token="<pad>", unk_token="<unk>").save_pretrained(folder)


def _weights(path: Path) -> dict[str, torch.Tensor]:
    """Weights of one graph, by the path of the node that uses them."""
    graph = _onnx().load(str(path)).graph
    stored = {x.name: _onnx().numpy_helper.to_array(x) for x in graph.initializer}
    found = {name: torch.from_numpy(x.copy()) for name, x in stored.items() if name.endswith("layer_norm.weight")}
    for node in graph.node:
        names = [name for name in node.input if name.endswith("_quantized") and name in stored]
        if names and node.op_type in ("Gather", "MatMulInteger"):
            path_of = node.name.strip("/").split("/")[:-1]
            matrix = _dequantised(stored, names[0].removesuffix("_quantized"))
            found[".".join(path_of) + ".weight"] = matrix if node.op_type == "Gather" else matrix.t().contiguous()
    return found


def _dequantised(stored: dict[str, Any], name: str) -> torch.Tensor:
    whole, zero, scale = (stored[f"{name}_{part}"] for part in ("quantized", "zero_point", "scale"))
    return torch.from_numpy(((whole.astype(np.float32) - zero.astype(np.float32)) * scale).astype(np.float32))


def _onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise MissingPackage("demo:flan_t5 must have the package onnx to be converted, got none. pip install 'headwise[demo]'") from None
    return onnx


ENTRY = Demo(convert, note="the weights of demo:flan_t5 were rounded to 8 bits by their publisher; they are shown as rounded, in float32")

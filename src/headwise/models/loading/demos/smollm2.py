"""SmolLM2-135M-Instruct (Apache-2.0), stored as GGUF with 4-bit weights."""

from pathlib import Path

from headwise.models.loading.demo import Demo


def convert(source: Path, folder: Path) -> None:
    """Write a directory that transformers loads: weights as they dequantise, in float32."""
    from headwise.models.loading import gguf

    gguf.convert(source / "SmolLM2-135M-Instruct.Q4_1.gguf", folder)


ENTRY = Demo(convert, note="the weights of demo:smollm2 were rounded to 4 bits by their publisher; they are shown as rounded, in float32")

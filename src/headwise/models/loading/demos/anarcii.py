"""ANARCII (Greenshields-Watson et al. 2025, BSD-3-Clause): numbers the residues of an antibody; torch's own attention modules throughout.

It is no model of transformers. Its modules come from the installed package, its input is two tensors of ids: `sequence`
[B, T] of residues and `numbering` [B, T] of what has been written so far.
"""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from headwise.axes import Float, Int, Tensor
from headwise.models.loading.demo import Demo, package

NAME = "antibody_4_2_128_512"
PAD = 0


class Numbering(nn.Module):
    """The encoder and decoder of the package, called as it calls them."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, sequence: Int[Tensor, "B S"], numbering: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        hidden = sequence == PAD
        later = ~torch.ones(2 * numbering.shape[1:], dtype=torch.bool, device=numbering.device).tril()
        memory = self.encoder(sequence, hidden)
        return self.decoder(numbering, memory, numbering == PAD, later, hidden)[0]


def convert(source: Path, folder: Path) -> None:
    """Write the weights as safetensors, and what the modules are built from."""
    place = source / "models" / "antibody"
    stored = torch.load(place / f"{NAME}.pt", map_location="cpu", weights_only=True)
    save_file({name: x.clone().contiguous() for name, x in stored.items()}, folder / "model.safetensors")
    (folder / "shape.json").write_text((place / f"{NAME}.json").read_text(encoding="utf-8"), encoding="utf-8")


def load(folder: Path) -> nn.Module:
    """The module, in eval mode."""
    shape = json.loads((folder / "shape.json").read_text(encoding="utf-8"))
    code = _code(package("anarcii") / "inference" / "model.py")
    width, heads, layers = shape["HID_DIM"], shape["HEADS"], shape["LAYERS"]
    sides = [kind(shape[f"{size}_DIM"], width, layers, heads, 4 * width, 0.0, "cpu") for kind, size in ((code.Encoder, "INPUT"), (code.Decoder, "OUTPUT"))]
    found = Numbering(*sides)
    found.load_state_dict(load_file(folder / "model.safetensors"))
    return found.eval()


def _code(path: Path) -> Any:
    """The package's file of modules, without the package around it, which wants more to be installed."""
    spec = spec_from_file_location("headwise_demo_anarcii", path)
    module = module_from_spec(spec)  # pyright: ignore[reportArgumentType]
    spec.loader.exec_module(module)  # pyright: ignore[reportOptionalMemberAccess]
    return module


ENTRY = Demo(convert, load=load)

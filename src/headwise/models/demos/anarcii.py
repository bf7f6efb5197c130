"""ANARCII (Greenshields-Watson et al. 2025, BSD-3-Clause): numbers the residues of an antibody; torch's own attention modules throughout."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

NAME = "antibody_4_2_128_512"


def convert(source: Path, folder: Path) -> None:
    """Write the weights as safetensors, with what the modules must be built from, and their code."""
    place = source / "models" / "antibody"
    stored = torch.load(place / f"{NAME}.pt", map_location="cpu", weights_only=True)
    save_file({name: x.clone().contiguous() for name, x in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "anarcii.json").write_text(json.dumps(json.loads((place / f"{NAME}.json").read_text(encoding="utf-8"))), encoding="utf-8")


ENTRY = convert

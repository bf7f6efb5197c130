"""RXNMapper's ALBERT (Schwaller et al. 2021, MIT): chemical reactions as SMILES, one layer's weights used 12 times.

Head 5 of layer 10 maps the atoms of a product to those of the reactants; nobody trained it to.

References: Schwaller et al. 2021, "Extraction of organic chemistry grammar from unsupervised learning of chemical reactions".
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from headwise.models.loading.demo import Demo

# What one token of a SMILES is: an atom in brackets, an atom, a bond, a ring's number, a branch, a dot or an arrow (Schwaller et al. 2019).
SMILES = r"\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]"


def convert(source: Path, folder: Path) -> None:
    """Write a directory that transformers loads, every weight as stored."""
    place = source / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
    stored = torch.load(place / "pytorch_model.bin", map_location="cpu", weights_only=True)
    weights = {name: x.clone().contiguous() for name, x in stored.items() if name != "predictions.decoder.weight"}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}, indent=2), encoding="utf-8")
    _tokenizer(place / "vocab.txt").save_pretrained(folder)


def _tokenizer(vocabulary: Path) -> Any:
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    ids = {token: i for i, token in enumerate(vocabulary.read_text(encoding="utf-8").split())}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Split(Regex(SMILES), behavior="removed", invert=True)
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]")


ENTRY = Demo(convert)

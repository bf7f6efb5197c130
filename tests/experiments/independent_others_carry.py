"""What silencing each head costs, a second time: plain transformers and torch, nothing of headwise.

    python tests/experiments/independent_others_carry.py DIRECTORY TEXTS.json   prints the median head's cost and the costliest heads.

Each head's part of W_O is set to 0 in the model itself, one head after the other, and put back. The cost is the rise of the next token's cross-entropy as
a share of the model's own; of a model that foretells nothing, 1 − cosine of its last hidden states with and without the head, mean over tokens.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn


def maps_of(hf: nn.Module) -> list[nn.Linear]:
    """W_O of each layer, by the names that Llama and BERT give it."""
    return [module for name, module in hf.named_modules() if name.endswith((".self_attn.o_proj", ".attention.output.dense")) and isinstance(module, nn.Linear)]


@contextmanager
def silenced(module: nn.Linear, head: int, heads: int) -> Iterator[None]:
    """Its columns of W_O at 0."""
    width = module.in_features // heads
    part = module.weight.data[:, head * width : (head + 1) * width]
    kept = part.clone()
    part.zero_()
    try:
        yield
    finally:
        part.copy_(kept)


@torch.no_grad()
def outputs_of(hf: nn.Module, ids: Tensor) -> Tensor:
    """The sum of the next tokens' cross-entropies, or the last hidden states."""
    given: Any = hf(input_ids=ids)
    if "logits" not in given:
        return given.last_hidden_state[0].double()
    return nn.functional.cross_entropy(given.logits[0, :-1].double(), ids[0, 1:], reduction="sum")


def costs(hf: nn.Module, texts: Sequence[Tensor]) -> list[list[float]]:
    """By layer and head."""
    heads = hf.config.num_attention_heads
    own = [outputs_of(hf, ids) for ids in texts]
    found = []
    for module in maps_of(hf):
        row = []
        for head in range(heads):
            with silenced(module, head, heads):
                row.append(cost(own, [outputs_of(hf, ids) for ids in texts]))
        found.append(row)
    return found


def cost(own: Sequence[Tensor], without: Sequence[Tensor]) -> float:
    """Of all texts together."""
    if own[0].dim() == 0:
        return float(sum(without) / sum(own)) - 1
    turned = torch.cat([1 - nn.functional.cosine_similarity(one, other, dim=-1) for one, other in zip(own, without, strict=True)])
    return float(turned.mean())


def main(directory: str, listed: str) -> None:
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    foretells = any("CausalLM" in name for name in AutoConfig.from_pretrained(directory).architectures or ())
    hf = (AutoModelForCausalLM if foretells else AutoModel).from_pretrained(directory, dtype=torch.float32).eval()
    with open(listed, encoding="utf-8") as file:
        texts = [torch.tensor([tokenizer(text)["input_ids"]]) for text in json.load(file)]
    found = {f"{layer}.{head}": value for layer, row in enumerate(costs(hf, texts)) for head, value in enumerate(row)}
    print(json.dumps({"median": median(found.values()), "costliest": dict(sorted(found.items(), key=lambda item: -item[1])[:5])}))


if __name__ == "__main__":
    main(*sys.argv[1:])

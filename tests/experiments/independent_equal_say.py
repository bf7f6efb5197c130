"""Shares of what the heads of each layer write, a second time: plain transformers and torch, nothing of headwise.

    python tests/experiments/independent_equal_say.py DIRECTORY TEXTS.json   prints the shares of the loudest
and the quietest head, chosen on half of the texts.

W_O is given one head's words at a time, the others' at 0; its bias is taken off. The half is that of torch.randperm with seed 0.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


def maps_of(hf: nn.Module) -> list[nn.Linear]:
    """W_O of each layer, by the names that Llama and BERT give it."""
    return [module for name, module in hf.named_modules() if name.endswith((".self_attn.o_proj", ".attention.output.dense")) and isinstance(module, nn.Linear)]


@torch.no_grad()
def lengths(hf: nn.Module, ids: Tensor, heads: int) -> list[Tensor]:
    """Of what each head writes, [T, H], by layer."""
    heard: dict[int, Tensor] = {}
    modules = maps_of(hf)
    handles = [module.register_forward_pre_hook(lambda module, args, place=place: heard.__setitem__(place, args[0][0])) for place, module in enumerate(modules)]
    hf(input_ids=ids)
    for handle in handles:
        handle.remove()
    found = []
    for place, module in enumerate(modules):
        words, columns = heard[place], []
        width = words.shape[1] // heads
        for head in range(heads):
            alone = torch.zeros_like(words)
            alone[:, head * width : (head + 1) * width] = words[:, head * width : (head + 1) * width]
            columns.append((nn.functional.linear(alone, module.weight)).double().norm(dim=1))
        found.append(torch.stack(columns, 1))
    return found


def shares(hf: nn.Module, texts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """[texts, L, H] summed over tokens, and tokens a text."""
    heads = hf.config.num_attention_heads
    rows, counts = [], []
    for ids in texts:
        rows.append(torch.stack([(layer / layer.sum(1, keepdim=True)).sum(0) for layer in lengths(hf, ids, heads)]))
        counts.append(float(ids.shape[1]))
    return torch.stack(rows), torch.tensor(counts, dtype=torch.float64)


def found(sums: Tensor, tokens: Tensor) -> dict[str, float]:
    """As the card has them."""
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0)).tolist()
    first, second = order[::2], order[1::2]
    layers, heads = sums.shape[1:]
    loud, quiet, ratios = [], [], torch.zeros(len(second), layers, dtype=torch.float64)
    for layer in range(layers):
        means = [float(sums[first, layer, head].sum() / tokens[first].sum()) for head in range(heads)]
        top, low = means.index(max(means)), means.index(min(means))
        loud.append(float(sums[second, layer, top].sum() / tokens[second].sum()))
        quiet.append(float(sums[second, layer, low].sum() / tokens[second].sum()))
        ratios[:, layer] = sums[second, layer, top] / sums[second, layer, low]
    every = sums.sum(0) / tokens.sum()
    evenness = -(every * every.log()).sum(1) / torch.log(torch.tensor(float(heads)))
    medians = ratios.median(1).values
    return {
        "loudest": sum(loud) / layers,
        "quietest": sum(quiet) / layers,
        "ratio": float((medians * tokens[second]).sum() / tokens[second].sum()),
        "evenness": float(evenness.mean()),
    }


def main(directory: str, listed: str) -> None:
    from transformers import AutoModel, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(directory)
    hf = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()
    with open(listed, encoding="utf-8") as file:
        texts = [torch.tensor([tokenizer(text)["input_ids"]]) for text in json.load(file)]
    print(json.dumps(found(*shares(hf, texts))))


if __name__ == "__main__":
    main(*sys.argv[1:])

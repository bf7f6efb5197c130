"""Slices of W_O's output beside heads, a second time: plain transformers and torch, nothing of headwise.

    python tests/experiments/independent_slice_after_output.py DIRECTORY TEXTS.json "LAYER.HEAD LAYER.HEAD ..."

prints how much of what a slice holds is its head's, over all heads; and for the heads that are named by what factor the two effects on the model's output
differ: KL from its own distribution over tokens on the first four texts, or 1 − cosine of its last hidden state.
"""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

TEXTS = 4


def maps_of(hf: nn.Module) -> list[nn.Linear]:
    """W_O of each layer, by the names that Llama and BERT give it."""
    return [module for name, module in hf.named_modules() if name.endswith((".self_attn.o_proj", ".attention.output.dense")) and isinstance(module, nn.Linear)]


@torch.no_grad()
def slices(hf: nn.Module, ids: Tensor, heads: int) -> tuple[list[list[float]], list[list[float]]]:
    """By layer and head: the head's part of its slice, and the mean cosine of what the slice holds with what the head writes."""
    heard: dict[int, tuple[Tensor, Tensor]] = {}
    modules = maps_of(hf)

    def hear(place: int) -> Callable[..., None]:
        return lambda module, args, result: heard.__setitem__(place, (args[0][0].double(), result[0].double()))

    handles = [module.register_forward_hook(hear(place)) for place, module in enumerate(modules)]
    hf(input_ids=ids)
    for handle in handles:
        handle.remove()
    parts, cosines = [], []
    for place, module in enumerate(modules):
        words, out = heard[place]
        width = words.shape[1] // heads
        parts.append([])
        cosines.append([])
        for head in range(heads):
            columns = slice(head * width, (head + 1) * width)
            write = words[:, columns] @ module.weight.double()[:, columns].t()
            held = torch.zeros_like(out)
            held[:, columns] = out[:, columns]
            parts[-1].append(float((held * write).sum() / (held * held).sum()))
            cosines[-1].append(float(nn.functional.cosine_similarity(held, write, dim=1).mean()))
    return parts, cosines


@torch.no_grad()
def moved(hf: nn.Module, ids: Tensor, own: Tensor) -> float:
    """How far the model's output is from its own."""
    now = output_of(hf, ids)
    if hasattr(hf, "lm_head"):
        one, other = own.log_softmax(-1), now.log_softmax(-1)
        return float((one.exp() * (one - other)).sum(-1).mean())
    return float((1 - nn.functional.cosine_similarity(own, now, dim=-1)).mean())


@torch.no_grad()
def output_of(hf: nn.Module, ids: Tensor) -> Tensor:
    given: Any = hf(input_ids=ids)
    return (given.logits if hasattr(hf, "lm_head") else given.last_hidden_state)[0].double()


def effects(hf: nn.Module, texts: Sequence[Tensor], heads: int, wanted: Sequence[tuple[int, int]]) -> tuple[list[float], list[float]]:
    """Mean over texts of what silencing each head does, and of what cutting its slice does."""
    modules, right, wrong = maps_of(hf), [], []
    owns = [output_of(hf, ids) for ids in texts]
    for layer, head in wanted:
        module = modules[layer]
        width = module.in_features // heads
        columns = slice(head * width, (head + 1) * width)

        def mute(module: nn.Module, args: Any, columns: slice = columns) -> Any:
            words = args[0].clone()
            words[..., columns] = 0
            return (words,)

        def cut(module: nn.Module, args: Any, result: Tensor, columns: slice = columns) -> Tensor:
            result = result.clone()
            result[..., columns] = 0
            return result

        for found, handle in ((right, lambda: module.register_forward_pre_hook(mute)), (wrong, lambda: module.register_forward_hook(cut))):  # noqa: B023
            hook = handle()
            found.append(sum(moved(hf, ids, own) for ids, own in zip(texts, owns, strict=True)) / len(texts))
            hook.remove()
    return right, wrong


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Of the ranks."""
    ranks = [torch.tensor([float(sorted(values).index(value)) for value in values]) for values in (one, other)]
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])


def found(hf: nn.Module, texts: Sequence[Tensor], wanted: Sequence[tuple[int, int]]) -> dict[str, float]:
    """As the card has them."""
    heads = hf.config.num_attention_heads
    counts = torch.tensor([float(ids.shape[1]) for ids in texts], dtype=torch.float64)
    both = [slices(hf, ids, heads) for ids in texts]
    own, cosine = (float((torch.tensor([sum(map(sum, text[i])) / (len(text[i]) * heads) for text in both]) * counts).sum() / counts.sum()) for i in (0, 1))
    right, wrong = effects(hf, texts[:TEXTS], heads, wanted)
    factors = sorted(max(a / b, b / a) for a, b in zip(right, wrong, strict=True))
    return {"own": own, "cosine": cosine, "factor": factors[(len(factors) - 1) // 2], "factor, most": factors[-1], "order": correlation(right, wrong)}


def main(directory: str, listed: str, named: str) -> None:
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(directory)
    foretells = any("CausalLM" in name for name in AutoConfig.from_pretrained(directory).architectures or ())
    hf = (AutoModelForCausalLM if foretells else AutoModel).from_pretrained(directory, dtype=torch.float32).eval()
    with open(listed, encoding="utf-8") as file:
        texts = [torch.tensor([tokenizer(text)["input_ids"]]) for text in json.load(file)]
    wanted = [(int(layer), int(head)) for layer, head in (word.split(".") for word in named.split())]
    print(json.dumps(found(hf, texts, wanted)))


if __name__ == "__main__":
    main(*sys.argv[1:])

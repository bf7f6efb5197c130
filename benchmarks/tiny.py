"""Model types of transformers, each built tiny and random, with an input that takes it through its attention.

`tiny.json` says for each type its class, what its configuration must say to be small, and what goes in; or within which model it runs. Weights are normal
with the gain of one layer: with the small ones of a fresh model a softmax is nearly uniform, and an error would hide.
"""

import json
import random
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

GAIN = 1.3
KEPT = ("A_log", "dt_bias", "time_decay")  # recurrences that explode with other numbers
LARGEST = 60_000_000  # parameters: beyond it the model's own draw is kept


@cache
def known() -> Mapping[str, Mapping[str, Any]]:
    """By model type: class, configuration and inputs; or `missing`, why there are none."""
    return json.loads((Path(__file__).parent / "tiny.json").read_text(encoding="utf-8"))


def build(name: str) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The model and the keyword arguments of one pass."""
    entry = known()[name]
    if "within" in entry:
        return _part_of(*build(entry["within"]), entry["part"])
    where = import_module(f"transformers.models.{entry['module']}")
    config = _config(name, entry, where)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    hf = getattr(where, entry["class"])(config).eval().float()
    for part in _parts(hf.config):
        if getattr(part, "use_cache", False):
            part.use_cache = False  # FSMT leaves its causal mask out when it keeps a cache
        if "implementation" in entry:
            part._attn_implementation_internal = entry["implementation"]
    if sum(x.numel() for x in hf.parameters()) < LARGEST:
        redraw(hf)
    return hf, {key: value_of(key, stated, hf) for key, stated in entry["inputs"].items()}


def _part_of(hf: nn.Module, given: Mapping[str, Any], part: str) -> tuple[Any, dict[str, Any]]:
    """A model inside a model, and what it is given when the whole one runs."""
    module, caught = hf.get_submodule(part), {}

    def catch(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not caught:
            caught.update(dict(zip(signature(module.forward).parameters, args, strict=False)) | kwargs)

    with module.register_forward_pre_hook(catch, with_kwargs=True), torch.no_grad():
        seeded()
        hf(**given)
    return module, {name: x for name, x in caught.items() if x is not None and name not in ("cache", "past_key_values", "use_cache", "return_dict")}


def redraw(hf: nn.Module) -> None:
    """Draw every weight again, with a gain that makes attention sharp."""
    generator = torch.Generator().manual_seed(1)
    tables = {id(module.weight) for module in hf.modules() if isinstance(module, nn.Embedding)}
    for name, weight in hf.named_parameters():
        last = name.rpartition(".")[2]
        if not weight.is_floating_point() or last in KEPT or "conv_offset" in name:
            continue
        if weight.dim() < 2:
            weight.data += 0.1 * torch.randn(weight.shape, generator=generator)
        elif weight.numel():
            table = id(weight) in tables or "embed" in last or "relative" in name
            fan = max(weight.shape[1:]) if weight.dim() == 3 else weight.shape[1:].numel()
            weight.data.copy_(torch.randn(weight.shape, generator=generator) * (0.7 if table else GAIN / fan**0.5))


def value_of(name: str, stated: Any, hf: PreTrainedModel) -> Any:
    """An input as `tiny.json` states it: a literal, or "KIND SHAPE[; TOKEN at START:STOP]..."."""
    if not isinstance(stated, str):
        return torch.tensor(stated) if isinstance(stated, list) else stated
    first, *holds = stated.split(";")
    kind, *shape = first.split()
    size = [int(word) for word in shape]
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    if kind == "ids":
        vocabulary = min([95, *(x.vocab_size for x in _parts(hf.config) if isinstance(getattr(x, "vocab_size", None), int) and x.vocab_size > 8)])
        found = torch.randint(5, vocabulary, size, generator=generator)
    elif kind == "padded":
        found = torch.ones(size, dtype=torch.long)
        found[1:, -3:] = 0
    elif kind == "uniform":
        found = torch.rand(size, generator=generator)
    elif kind == "points":
        found = torch.rand(size, generator=generator) * 60
    elif kind == "patches":
        rows = torch.randint(0, 8, (*size[:-1], 2), generator=generator).float()
        found = torch.cat([rows, torch.randn(*size[:-1], size[-1] - 2, generator=generator)], -1)
    elif kind == "boxes":
        found = torch.rand(size, generator=generator).sort(-1).values
    elif kind == "normal":
        found = torch.randn(size, generator=generator)
    else:
        found = torch.full(size, float(kind[:-1])) if kind.endswith("s") else torch.full(size, int(kind[:-1]))
    for hold in holds:
        token, _, span = hold.split()
        start, stop = (int(word) for word in span.split(":"))
        found[:, start:stop] = int(token)
    return found


def seeded() -> None:
    """Some models draw numbers in eval mode too: patches to mask, noise to denoise."""
    torch.manual_seed(7)
    random.seed(7)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(7)


def _config(name: str, entry: Mapping[str, Any], where: Any) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if "config_class" in entry:
        kind = getattr(import_module(where.__name__.replace(".modeling_", ".configuration_")), entry["config_class"])
    else:
        kind = CONFIG_MAPPING[name]
    return kind(**json.loads(json.dumps(entry["config"])))


def _parts(config: Any) -> list[Any]:
    parts = [x for key in getattr(type(config), "sub_configs", {}) or {} if (x := getattr(config, key, None)) is not None]
    return [config, *(deep for part in parts for deep in _parts(part))]

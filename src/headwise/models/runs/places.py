"""Names for the parts of a model: the tower that an attention call belongs to, and whether it is self- or cross-attention."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

from headwise.models.layout import AttentionSite


@dataclass(frozen=True)
class Place:
    """The place of a call in a pass: the `layer`-th of its part.

    Attributes:
        blocks: its batch rows are blocks of a text, whose keys begin before their queries.
    """

    index: int
    module: str
    part: str
    layer: int
    cross: bool
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    blocks: bool = False


def places(model: nn.Module, sites: Sequence[AttentionSite], shapes: Sequence[tuple[int, int, int, int, int]]) -> list[Place]:
    """The place of each call, given its [B, H, G, T, S].

    A part is "self", "cross", "encoder.self", "vision_tower.self": the tower is the innermost PreTrainedModel around the
    calling module, by as much of its name as distinguishes it from the others. Calls of one tower that differ in batch or length
    (windows, stages) are parts of their own: "self", "self.2".
    """
    inner = ["", *(name for name, module in model.named_modules() if isinstance(module, PreTrainedModel))]
    homes = [max((name for name in inner if _inside(site.module, name)), key=len) for site in sites]
    towers = _shortest(homes)
    known: dict[str, list[tuple[int, int, int]]] = {}
    layers: Counter[str] = Counter()
    found = []
    for site, home, (b, h, g, t, s) in zip(sites, homes, shapes, strict=True):
        cross = site.cross or (t != s and not site.blocks)
        part = ".".join(word for word in (towers[home], "cross" if cross else "self") if word)
        stages = known.setdefault(part, [])
        if (b, t, s) not in stages:
            stages.append((b, t, s))
        stage = stages.index((b, t, s))
        part = part if stage == 0 else f"{part}.{stage + 1}"
        found.append(Place(site.index, site.module, part, layers[part], cross, b, h, g, t, s, site.blocks))
        layers[part] += 1
    return found


def _inside(module: str, model: str) -> bool:
    return not model or module == model or module.startswith(f"{model}.")


def _shortest(homes: Sequence[str]) -> dict[str, str]:
    """For each tower the first of its path's words, after those that all share, that are enough to distinguish it from the others.

    Example:
        >>> _shortest(["model.encoder", "model.decoder"])
        {'model.encoder': 'encoder', 'model.decoder': 'decoder'}
        >>> _shortest(["model.language_model", "model.vision_tower.vision_model"])
        {'model.language_model': 'language_model', 'model.vision_tower.vision_model': 'vision_tower'}
        >>> _shortest(["model", "model"])
        {'model': ''}
    """
    paths = {home: home.split(".") if home else [] for home in dict.fromkeys(homes)}
    common = 0
    while len(paths) > 1 and all(len(path) > common for path in paths.values()) and len({path[common] for path in paths.values()}) == 1:
        common += 1
    found: dict[str, str] = {}
    for home, path in paths.items():
        rest = path[common:] if len(paths) > 1 else []
        others = [other[common:] for name, other in paths.items() if name != home]
        count = next((n for n in range(1, len(rest)) if all(other[:n] != rest[:n] for other in others)), len(rest))
        found[home] = ".".join(rest[:count])
    return found

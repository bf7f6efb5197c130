"""A pass written down: what every block gave, what every head said, what W_O read; enough to run it again from any layer's W_O on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from headwise.axes import Float, Output, Tensor
from headwise.models.layout import Layout


@dataclass(frozen=True, eq=False)
class Step:
    """One use of a block: what it gave, and what came by in it.

    Attributes:
        given: the first tensor that it was given: the residual stream, where there is one.
        calls: attention calls inside it that came by our function.
        uses: how often each module that holds a W_O was used inside it.
    """

    block: str
    given: Tensor | None
    result: Any
    calls: int
    uses: Mapping[str, int]


@dataclass(eq=False)
class Tape:
    """What a pass left behind.

    Attributes:
        words: what the heads of each call that came by our function said.
        shapes: [B, H, G, T, S] of each of these calls.
        reads: what W_O read of each attention call, by its number.
        steps: of the blocks, in the order of the pass.
        starts: of each attention call with a W_O: the step in which W_O read it, and how many calls of ours there had been.
        outputs: what the model returned.
        head_in: what the map to the vocabulary read, where there is one; `head_out` what it gave.
    """

    words: list[Output] = field(default_factory=list)
    shapes: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    reads: dict[int, Float[Tensor, "B T H E"]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    starts: dict[int, tuple[int, int]] = field(default_factory=dict)
    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    head_in: Tensor | None = None
    head_out: Tensor | None = None


def blocks_of(model: nn.Module, layout: Layout) -> list[str]:
    """The names of the model's blocks: all children of the outermost lists of modules around its attention calls."""
    lists: dict[str, None] = {}
    for site in layout.sites:
        words = site.module.split(".")
        around = (".".join(words[:i]) for i in range(len(words)))
        found = next((name for name in around if isinstance(model.get_submodule(name), nn.ModuleList | nn.Sequential)), None)
        if found is not None:
            lists[found] = None
    return [f"{name}.{child}" for name in lists for child, _ in model.get_submodule(name).named_children()]


def several(found: Any, batch: int, times: int) -> Any:
    """What a block gave, for so many copies of the batch; copied, as the model may write into it."""

    def copied(x: Tensor) -> Tensor:
        return x.repeat(times, *(1,) * (x.dim() - 1)) if x.dim() and x.shape[0] == batch and times > 1 else x.clone()

    return tree_map_only(torch.Tensor, copied, found)


def unread(found: Any, batch: int, times: int) -> Any:
    """The same where nothing of it will be read: shapes without copies, for one text; a model that writes into it all the same fails, and is then run whole."""
    if batch > 1 or times == 1:
        return several(found, batch, times)
    return tree_map_only(torch.Tensor, lambda x: x.expand(times, *x.shape[1:]) if x.dim() and x.shape[0] == 1 else x, found)


def replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> None:
    """Give one module of a twin another way to compute; its hooks, names and attributes stay."""
    vars(module)["forward"] = forward


def first_tensor(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The first tensor among arguments, by place and then by name."""
    return next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)


def detach(model: nn.Module) -> None:
    """Let a twin hold its weights without their gradients; the model that shares them is as it was."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = parameter.detach()  # pyright: ignore[reportArgumentType]

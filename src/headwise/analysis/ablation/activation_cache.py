"""The activations of one forward pass: enough to rerun it from any layer's W_O on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from headwise.axes import Float, Output, Tensor
from headwise.models.layout import Layout


@dataclass(frozen=True, eq=False)
class BlockRecord:
    """One call of a transformer block.

    Attributes:
        block: the module's name.
        input: the first tensor among its arguments: the residual stream, where there is one.
        output: what it returned.
        calls: how many attention calls inside it went through headwise's attention function.
        uses: how often each module that holds a W_O was called inside it.
    """

    block: str
    input: Tensor | None
    output: Any
    calls: int
    uses: Mapping[str, int]


@dataclass(eq=False)
class ActivationCache:
    """The activations of one forward pass.

    Attributes:
        z: the heads' outputs in each attention call that went through headwise's attention function.
        shapes: [B, H, G, T, S] of each of these calls.
        wo_inputs: the input of W_O by attention call; equal to z unless the model changes z first, as a gate does.
        blocks: the calls of transformer blocks, in order.
        resume_points: for each attention call with a W_O: the block in which W_O read it, and how many attention calls had been made by then.
        outputs: the model's outputs, by name.
        unembed_input: the input of the unembedding, where there is one.
        unembed_output: its output.
    """

    z: list[Output] = field(default_factory=list)
    shapes: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    wo_inputs: dict[int, Float[Tensor, "B T H E"]] = field(default_factory=dict)
    blocks: list[BlockRecord] = field(default_factory=list)
    resume_points: dict[int, tuple[int, int]] = field(default_factory=dict)
    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    unembed_input: Tensor | None = None
    unembed_output: Tensor | None = None


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


def repeat_batch(found: Any, batch: int, times: int) -> Any:
    """What a block gave, for so many copies of the batch; copied, as the model may write into it."""

    def copied(x: Tensor) -> Tensor:
        return x.repeat(times, *(1,) * (x.dim() - 1)) if x.dim() and x.shape[0] == batch and times > 1 else x.clone()

    return tree_map_only(torch.Tensor, copied, found)


def placeholders(found: Any, batch: int, times: int) -> Any:
    """The same where nothing of it will be read: shapes without copies, for one text; a model that writes into it all the same fails, and is then run whole."""
    if batch > 1 or times == 1:
        return repeat_batch(found, batch, times)
    return tree_map_only(torch.Tensor, lambda x: x.expand(times, *x.shape[1:]) if x.dim() and x.shape[0] == 1 else x, found)


def replace_forward(module: nn.Module, forward: Callable[..., Any]) -> None:
    """Give one module of a twin another way to compute; its hooks, names and attributes stay."""
    vars(module)["forward"] = forward


def first_tensor(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The first tensor among arguments, by place and then by name."""
    return next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)


def detach_parameters(model: nn.Module) -> None:
    """Let a twin hold its weights without their gradients; the model that shares them is as it was."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = parameter.detach()  # pyright: ignore[reportArgumentType]

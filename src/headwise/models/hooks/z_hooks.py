"""Hooks that change z before W_O reads it, in a model derived from another."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from headwise.axes import Float, Tensor
from headwise.errors import WritesRefused
from headwise.models.hooks.derived_model import derive_model
from headwise.models.layout import Layout, OutputProjection

USE_COUNT = "_headwise_turn"  # an attribute of W_O's module: how often it has run in this pass; copied with it, so that each clone counts alone

Z = Float[Tensor, "B T H E"]
ZHook = Callable[[Z], Z]


def with_z_hooks(hf: nn.Module, layout: Layout, heads: Mapping[int, int], changes: Mapping[int, ZHook]) -> Any:
    """Derive a model, sharing tensors, in which `changes` are applied to z before W_O reads it.

    The original is not touched. The result runs like any model, under every attention implementation, also through `Model.run`.

    Args:
        layout: from a run of the model on an input of this kind.
        heads: how many heads each changed call has, by its index.
        changes: by index of the call; each takes what W_O reads, gates included, as [B, T, H, E], and returns it changed.

    Raises:
        WritesRefused: heads of a call cannot be separated, or W_O reads several calls at once.
    """
    other = derive_model(hf)
    by_module: dict[str, dict[int, tuple[int, OutputProjection, ZHook]]] = {}
    for index, change in changes.items():
        output = _output(layout, index)
        by_module.setdefault(output.module, {})[output.use] = (heads[index], output, change)
    counts = Counter(module for module, _ in layout.by_output)
    for name, uses in by_module.items():
        other.get_submodule(name).register_forward_pre_hook(_Reader(uses, counts[name] > 1), with_kwargs=True)
    other.register_forward_pre_hook(_Start(tuple(by_module)))
    return other


def scale_heads(factors: Float[Tensor, " H"]) -> ZHook:
    """Each head's z times its factor: 0 ablates it."""

    def change(z: Z) -> Z:
        return z * factors.to(z)[:, None]

    return change


def _output(layout: Layout, index: int) -> OutputProjection:
    site = layout.sites[index]
    if site.output is None:
        raise WritesRefused(f"heads of {site.module} cannot be separated before W_O: {site.refusal}.")
    if len(site.output.calls) > 1:
        raise WritesRefused(
            f"W_O of {site.module} must read one attention call at a time, got {len(site.output.calls)} joined. They cannot be changed one by one."
        )
    return site.output


class _Start:
    """Before the model runs: reset the use count of every W_O."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __call__(self, model: nn.Module, args: Any) -> None:
        for name in self.names:
            vars(model.get_submodule(name))[USE_COUNT] = 0


class _Reader:
    """Before W_O's module runs: change z of the call that it reads now.

    Args:
        counting: the module runs several times in a pass; where it does not, every use counts, also in parts of the model run alone.
    """

    def __init__(self, uses: Mapping[int, tuple[int, OutputProjection, ZHook]], counting: bool) -> None:
        self.uses, self.counting = uses, counting

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        use = vars(module).get(USE_COUNT, 0) if self.counting else 0
        vars(module)[USE_COUNT] = use + 1
        if use not in self.uses:
            return None
        heads, output, change = self.uses[use]
        if args:
            return (_changed(args[0], heads, output, change), *args[1:]), kwargs
        return args, kwargs | {"input": _changed(kwargs["input"], heads, output, change)}


def _changed(read: Tensor, heads: int, output: OutputProjection, change: ZHook) -> Tensor:
    batched = read if read.dim() == 3 else read.reshape(1, -1, read.shape[-1])
    z = (batched.transpose(0, 1) if output.sequence_first else batched).unflatten(-1, (heads, -1))
    new = change(z).to(read.dtype).flatten(2)
    return (new.transpose(0, 1) if output.sequence_first else new).reshape(read.shape)


def use_counts(module: nn.Module) -> dict[nn.Module, int]:
    """How often each module inside that counts has run."""
    return {inner: vars(inner)[USE_COUNT] for inner in module.modules() if USE_COUNT in vars(inner)}


def set_use_counts(uses: Mapping[nn.Module, int]) -> None:
    """Put the counts back, after a part of the model has run once more than it should."""
    for module, use in uses.items():
        vars(module)[USE_COUNT] = use

"""The layout of a pass: its attention calls in order, and the module that holds W_O of each."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from headwise.axes import Float, Tensor


@dataclass(frozen=True)
class OutputProjection:
    """The module that holds W_O for some calls: its `use`-th use in a pass reads their z, H x E numbers a token.

    Attributes:
        calls: the calls whose tokens it reads, one call's after the other's.
        exact: it reads z itself; else something that acts on each head alone, such as a gate, comes before.
        sequence_first: it reads [T, B, H·E] rather than [B, T, H·E].
    """

    module: str
    use: int
    calls: tuple[int, ...]
    exact: bool
    sequence_first: bool = False


@dataclass(frozen=True)
class AttentionSite:
    """One attention call of a pass.

    Attributes:
        module: qualified name of the module that calls.
        cross: by its name or by what it was given, its keys are not the queries' own tokens.
        output: where W_O is; None where writes cannot be attributed to heads, for the reason in `refusal`.
        heads: how many, where the model computes this attention itself; None where it goes through our function.
        blocks: a text cut into blocks, as batch rows: each sees the keys around it, more than it has queries, of the same tokens.
    """

    index: int
    module: str
    cross: bool
    output: OutputProjection | None
    refusal: str | None
    heads: int | None = None
    blocks: bool = False


@dataclass(frozen=True, eq=False)
class Layout:
    """All calls of a pass, in order."""

    sites: tuple[AttentionSite, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def by_output(self) -> dict[tuple[str, int], OutputProjection]:
        """The outputs, by module and number of its use."""
        return {(site.output.module, site.output.use): site.output for site in self.sites if site.output is not None}


def is_linear(module: nn.Module) -> bool:
    """Whether a module multiplies its input by one dense weight, and so can hold W_O."""
    weight = getattr(module, "weight", None)
    return isinstance(module, nn.Linear | Conv1D) and isinstance(weight, Tensor) and weight.dim() == 2 and weight.is_floating_point()


def w_o_by_head(module: nn.Module, heads: int) -> Float[Tensor, "H E M"]:
    """W_O by head, as it multiplies z. A Conv1D stores it transposed relative to a Linear."""
    weight = resident_weight(module, "weight")
    whole = weight if isinstance(module, Conv1D) else weight.t()
    return whole.unflatten(0, (heads, -1))


def w_o_bias(module: nn.Module) -> Float[Tensor, " M"] | None:
    return resident_weight(module, "bias") if isinstance(module.bias, torch.Tensor) else None


def resident_weight(module: nn.Module, name: str) -> Tensor:
    """A weight; from where accelerate keeps it, where the module has it only while it runs."""
    weight: Tensor = getattr(module, name).detach()
    hook = getattr(module, "_hf_hook", None)
    kept = next((one.weights_map for one in getattr(hook, "hooks", (hook,)) if getattr(one, "weights_map", None) is not None), None)
    return kept[name] if weight.is_meta and kept is not None else weight


def split_by_call(read: Tensor, output: OutputProjection, shapes: list[tuple[int, int, int, int]]) -> list[Tensor]:
    """What W_O reads, call by call and head by head: [B, T, H, E] as `shapes` says, which may differ from call to call."""
    if output.sequence_first:
        read = read.transpose(0, 1)
    rows = read.reshape(-1, read.shape[-1])
    counts = [b * t for b, t, _, _ in shapes]
    return [part.reshape(shape) for part, shape in zip(rows.split(counts), shapes, strict=True)]


def split_output_by_call(written: Tensor, output: OutputProjection, shapes: list[tuple[int, int, int, int]]) -> list[Tensor]:
    """What comes out of W_O's module, call by call: [B, T, M]."""
    return [part[:, :, 0] for part in split_by_call(written, output, [(b, t, 1, written.shape[-1]) for b, t, _, _ in shapes])]

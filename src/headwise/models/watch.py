"""One pass of a twin, listened to: each attention call with what W_O then reads of it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from headwise.attention.attend import compute
from headwise.attention.spec import Attended
from headwise.axes import Float, Int, Output, Tensor
from headwise.models.layout import Layout, apart, whole
from headwise.models.reading import Asked, TakenApart
from headwise.models.tap import running


@dataclass(frozen=True, eq=False)
class Heard:
    """An attention call, complete.

    Attributes:
        index: the how manieth of the pass; `Layout.sites[index]` tells more.
        read: what W_O read of it, by head; None where W_O was not found.
        written: what came out of W_O's module for these tokens.
    """

    index: int
    asked: Asked
    attended: Attended
    read: Float[Tensor, "B T H E"] | None
    written: Float[Tensor, "B T M"] | None


class LayoutChanged(Exception):  # noqa: N818 - not an error: the model took another way, and is surveyed again
    """The calls of this pass are not those that the layout lists."""


class _Enough(Exception):  # noqa: N818
    """Everything wanted has been heard: the rest of the pass need not run."""


@dataclass(frozen=True, eq=False)
class Wish:
    """What a pass is to find out.

    Attributes:
        statistics: names.
        listener: told of each call.
        calls: which calls the listener hears of; None = all. The pass ends after the last of them.
        segments: labels of the keys, for the statistic `segment`.
    """

    statistics: tuple[str, ...]
    listener: Callable[[Heard], None]
    calls: Collection[int] | None = None
    segments: Int[Tensor, "B S"] | None = None


class Watch:
    """Runs a twin once and tells the listener.

    Args:
        twin: set to our implementation.
        layout: from the survey.
        inputs: keyword arguments of the model.
        unmasked_is_causal: see `reading.read`.
    """

    def __init__(self, twin: PreTrainedModel, layout: Layout, inputs: Mapping[str, Any], wish: Wish, unmasked_is_causal: bool) -> None:
        self.twin, self.layout, self.inputs, self.wish = twin, layout, inputs, wish
        self.unmasked_is_causal = unmasked_is_causal
        self.known = frozenset(inputs)
        self.taken_apart = TakenApart()
        self.names = {id(module): name for name, module in twin.named_modules()}
        self.count = 0
        self.turns: Counter[str] = Counter()
        self.open: dict[int, tuple[Asked, Attended]] = {}
        self.left = None if wish.calls is None else _with_companions(layout, wish.calls)

    def run(self) -> Any:
        """The model's output; None where the pass ended early.

        Raises:
            LayoutChanged: the model took another way than the layout says.
        """
        for name in {output.module for output in self.layout.by_output.values()}:
            self.twin.get_submodule(name).register_forward_hook(self._leaf(name), with_kwargs=True)
        try:
            with running(self), torch.inference_mode(False), torch.no_grad():
                outputs = self.twin(**self.inputs)
        except _Enough:
            return None
        if self.count != len(self.layout.sites):
            raise LayoutChanged
        return outputs

    def has(self, module: nn.Module) -> bool:
        return id(module) in self.names

    def attend(self, module: nn.Module, asked: Asked) -> Output:
        """Compute a call, and remember it until W_O has read it."""
        index = self.count
        self.count += 1
        if index >= len(self.layout.sites) or self.layout.sites[index].module != self.names[id(module)]:
            raise LayoutChanged
        attended = self.compute(asked)
        if self.left is None or index in self.left:
            self.open[index] = (asked, attended)
            if self.layout.sites[index].output is None:
                self.tell(index, None, None)
        return attended.output

    def compute(self, asked: Asked) -> Attended:
        segments = self.wish.segments
        if segments is None or "segment" not in self.wish.statistics:
            return compute(asked.query, asked.key, asked.value, asked.call, self.wish.statistics)
        fits = tuple(segments.shape) == (asked.key.shape[0], asked.key.shape[2])
        labels = segments if fits else torch.full((asked.key.shape[0], asked.key.shape[2]), -1)  # keys that are other tokens carry no label
        call = replace(asked.call, segments=labels.to(asked.key.device))
        return compute(asked.query, asked.key, asked.value, call, self.wish.statistics)

    def tell(self, index: int, read: Tensor | None, written: Tensor | None) -> None:
        asked, attended = self.open.pop(index)
        if self.wish.calls is None or index in self.wish.calls:
            self.wish.listener(Heard(index, asked, attended, read, written))
        if self.left is not None:
            self.left.discard(index)
            if not self.left:
                raise _Enough

    def _leaf(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
            output = self.layout.by_output.get((name, self.turns[name]))
            self.turns[name] += 1
            if output is None:
                return
            if not any(index in self.open for index in output.calls):
                return
            shapes = [shape_of(self.open[index][1].output) for index in output.calls]
            reads = apart(args[0] if args else kwargs["input"], output, shapes)
            for index, read, write in zip(output.calls, reads, whole(result, output, shapes), strict=True):
                self.tell(index, read, write)

        return hook


def _with_companions(layout: Layout, calls: Collection[int]) -> set[int]:
    """The calls, and those whose tokens W_O reads together with theirs."""
    outputs = [layout.sites[index].output for index in calls]
    return set(calls).union(*(output.calls for output in outputs if output is not None))


def shape_of(z: Output) -> tuple[int, int, int, int]:
    """[B, T, H, E] of z, as W_O reads it."""
    b, h, t, e = z.shape
    return b, t, h, e

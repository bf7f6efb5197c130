"""One pass of a twin, listened to: each attention call with what W_O then reads of it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from headwise.attention.attend import compute
from headwise.attention.call import Attended
from headwise.axes import Float, Int, Output, Tensor
from headwise.models.capture.attention_request import Asked, TakenApart
from headwise.models.capture.eager_capture import asked_of, fused
from headwise.models.capture.hf_attention import running
from headwise.models.capture.layout import Layout, apart, whole
from headwise.models.capture.softmax_detector import Lookout
from headwise.models.masks.diagonal_bias import Differences, are_long


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


class LayoutChanged(Exception):
    """The calls of this pass are not those that the layout lists: no error, the model is surveyed again."""


class _Enough(Exception):
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
        entry: the module that the pass is of; the whole twin when empty.
    """

    def __init__(self, twin: nn.Module, layout: Layout, inputs: Mapping[str, Any], wish: Wish, unmasked_is_causal: bool, entry: str = "") -> None:
        self.entry = twin.get_submodule(entry)
        self.twin, self.layout, self.inputs, self.wish = twin, layout, inputs, wish
        self.unmasked_is_causal = unmasked_is_causal
        self.known = frozenset(inputs)
        self.taken_apart = TakenApart()
        self.names = {id(module): name for name, module in twin.named_modules()}
        self.count = 0
        self.turns: Counter[str] = Counter()
        self.open: dict[int, tuple[Asked, Attended]] = {}
        self.busy = False
        self.left = None if wish.calls is None else _with_companions(layout, wish.calls)

    def run(self) -> Any:
        """The model's output; None where the pass ended early.

        Raises:
            LayoutChanged: the model took another way than the layout says.
        """
        for name in {output.module for output in self.layout.by_output.values()}:
            self.twin.get_submodule(name).register_forward_hook(self._leaf(name), with_kwargs=True)
        try:
            with running(self), torch.inference_mode(False), torch.no_grad(), self._ear(), self._by_distance():
                outputs = self.entry(**self.inputs)
        except _Enough:
            return None
        if self.count != len(self.layout.sites):
            raise LayoutChanged
        return outputs

    def _ear(self) -> Any:
        """Listens to operators, where the layout has attention that the model computes itself."""
        if all(site.heads is None for site in self.layout.sites):
            return nullcontext()
        return Lookout(self, [*self.twin.parameters(), *self.twin.buffers()])

    def _by_distance(self) -> Any:
        """Keeps what depends on distances alone by diagonal, where the input is long."""
        return Differences(self) if are_long(self.inputs) else nullcontext()

    def where(self) -> tuple[tuple[str, str], ...]:
        return ()

    def is_within_tokens(self, shape: tuple[int, ...]) -> bool:
        """[B, T, n, n] beside ids of [B, T]: n things of each token. Where T = n too, it could be attention, and is taken for it."""
        ids = next((x for name in ("input_ids", "inputs_embeds") if isinstance(x := self.inputs.get(name), Tensor) and x.dim() > 1), None)
        return ids is not None and len(shape) == 4 and shape[:2] == ids.shape[:2] and shape[2] == shape[3] != shape[1]

    def overhear(self, weights: Tensor, value: Tensor, said: Tensor, shape: tuple[int, ...]) -> Tensor | None:
        """A product of weights with values: a call, if the layout has one here that fits."""
        site = self.layout.sites[self.count] if self.count < len(self.layout.sites) else None
        if site is None or site.heads is None or weights.shape[0] % site.heads:
            return None
        with self._own_work():
            return self._overheard(asked_of(weights, value, site.heads), said.unflatten(0, (-1, site.heads)), said)

    def overhear_fused(self, named: dict[str, Any], said: Tensor) -> Tensor | None:
        site = self.layout.sites[self.count] if self.count < len(self.layout.sites) else None
        if site is None or site.heads is None:
            return None
        with self._own_work():
            return self._overheard(fused(named, self.taken_apart), said, said)

    def _overheard(self, asked: Asked, z: Output, said: Tensor) -> Tensor:
        index = self.count
        self.count += 1
        self._remember(index, asked, replace(self.compute(asked), output=z.clone()))  # the model may add to it in place
        return said

    @contextmanager
    def _own_work(self) -> Iterator[None]:
        """While our own code runs, the lookout does not look."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def has(self, module: nn.Module) -> bool:
        return id(module) in self.names

    def attend(self, module: nn.Module, asked: Asked) -> Output:
        """Compute a call, and remember it until W_O has read it."""
        index = self.count
        self.count += 1
        if index >= len(self.layout.sites) or self.layout.sites[index].module != self.names[id(module)]:
            raise LayoutChanged
        with self._own_work():
            attended = self.compute(asked)
            self._remember(index, asked, attended)
        return attended.output

    def _remember(self, index: int, asked: Asked, attended: Attended) -> None:
        if self.left is None or index in self.left:
            self.open[index] = (asked, attended)
            if self.layout.sites[index].output is None:
                self.tell(index, None, None)

    def compute(self, asked: Asked) -> Attended:
        """What the call comes to. No mode listens meanwhile: under one, torch never lets go of what it hands to a kernel by DLPack."""
        with _disable_current_modes():
            return self._computed(asked)

    def _computed(self, asked: Asked) -> Attended:
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
            with self._own_work():
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

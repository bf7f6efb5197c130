"""One pass of a twin, listened to: each attention call with what W_O then reads of it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from headwise.attention.attend import compute
from headwise.attention.call import Attended
from headwise.axes import Float, Int, Output, Tensor
from headwise.models.capture.attention_request import AttentionRequest, MaskSplitter
from headwise.models.capture.eager_capture import request_from_fused, request_from_weights
from headwise.models.capture.hf_attention import recording
from headwise.models.capture.padding import with_padding
from headwise.models.capture.softmax_detector import SoftmaxDetector
from headwise.models.layout import Layout, split_by_call, split_output_by_call
from headwise.models.masks.diagonal_bias import DistanceMode, are_long


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """An attention call, complete.

    Attributes:
        index: the how manieth of the pass; `Layout.sites[index]` tells more.
        read: what W_O read of it, by head; None where W_O was not found.
        written: what came out of W_O's module for these tokens.
    """

    index: int
    request: AttentionRequest
    attended: Attended
    z: Float[Tensor, "B T H E"] | None
    w_o_output: Float[Tensor, "B T M"] | None


class LayoutChanged(Exception):
    """The calls of this pass are not those that the layout lists: no error, the model is surveyed again."""


class _PassEnded(Exception):
    """Everything wanted has been heard: the rest of the pass need not run."""


@dataclass(frozen=True, eq=False)
class CaptureSpec:
    """What a pass is to find out.

    Attributes:
        statistics: names.
        listener: told of each call.
        calls: which calls the listener hears of; None = all. The pass ends after the last of them.
        segments: labels of the keys, for the statistic `segment`.
    """

    statistics: tuple[str, ...]
    on_record: Callable[[AttentionRecord], None]
    calls: Collection[int] | None = None
    segments: Int[Tensor, "B S"] | None = None


class Recorder:
    """Runs a twin once and tells the listener.

    Args:
        twin: set to our implementation.
        layout: from the survey.
        inputs: keyword arguments of the model.
        entry: the module that the pass is of; the whole twin when empty.
    """

    def __init__(self, clone: nn.Module, layout: Layout, inputs: Mapping[str, Any], spec: CaptureSpec, entry: str = "") -> None:
        self.entry = clone.get_submodule(entry)
        self.clone, self.layout, self.inputs, self.spec = clone, layout, inputs, spec
        self.model_kwargs = frozenset(inputs)
        self.split_mask = MaskSplitter()
        self.causal_masks_left_out = False  # sdpa relies on the modules for them
        self.has_sdpa = any(isinstance(module, PreTrainedModel) and module._supports_sdpa for module in clone.modules())
        self.names = {id(module): name for name, module in clone.named_modules()}
        self.count = 0
        self.uses: Counter[str] = Counter()
        self.pending: dict[int, tuple[AttentionRequest, Attended]] = {}
        self.busy = False
        self.remaining = None if spec.calls is None else _with_companions(layout, spec.calls)

    def run(self) -> Any:
        """The model's output; None where the pass ended early.

        Raises:
            LayoutChanged: the model took another way than the layout says.
        """
        for name in {output.module for output in self.layout.by_output.values()}:
            self.clone.get_submodule(name).register_forward_hook(self._projection_hook(name), with_kwargs=True)
        try:
            with recording(self), torch.inference_mode(False), torch.no_grad(), self._detector_mode(), self._by_distance():
                outputs = self.entry(**self.inputs)
        except _PassEnded:
            return None
        if self.count != len(self.layout.sites):
            raise LayoutChanged
        return outputs

    def _detector_mode(self) -> Any:
        """Listens to operators, where the layout has attention that the model computes itself."""
        if all(site.heads is None for site in self.layout.sites):
            return nullcontext()
        return SoftmaxDetector(self, [*self.clone.parameters(), *self.clone.buffers()])

    def _by_distance(self) -> Any:
        """Keeps what depends on distances alone by diagonal, where the input is long."""
        return DistanceMode(self) if are_long(self.inputs) else nullcontext()

    def where(self) -> tuple[tuple[str, str], ...]:
        return ()

    def is_within_tokens(self, shape: tuple[int, ...]) -> bool:
        """[B, T, n, n] beside ids of [B, T]: n things of each token. Where T = n too, it could be attention, and is taken for it."""
        ids = next((x for name in ("input_ids", "inputs_embeds") if isinstance(x := self.inputs.get(name), Tensor) and x.dim() > 1), None)
        return ids is not None and len(shape) == 4 and shape[:2] == ids.shape[:2] and shape[2] == shape[3] != shape[1]

    def capture_product(self, weights: Tensor, value: Tensor, said: Tensor, shape: tuple[int, ...]) -> Tensor | None:
        """A product of weights with values: a call, if the layout has one here that fits."""
        site = self.layout.sites[self.count] if self.count < len(self.layout.sites) else None
        if site is None or site.heads is None or weights.shape[0] % site.heads:
            return None
        with self._own_work():
            return self._captured(request_from_weights(weights, value, site.heads), said.unflatten(0, (-1, site.heads)), said)

    def capture_fused(self, named: dict[str, Any], said: Tensor) -> Tensor | None:
        site = self.layout.sites[self.count] if self.count < len(self.layout.sites) else None
        if site is None or site.heads is None:
            return None
        with self._own_work():
            return self._captured(request_from_fused(named, self.split_mask), said, said)

    def _captured(self, request: AttentionRequest, z: Output, said: Tensor) -> Tensor:
        index = self.count
        self.count += 1
        request = self.padded(request, self.layout.sites[index].module, self.layout.sites[index].cross)
        self._remember(index, request, replace(self.compute(request), output=z.clone()))  # the model may add to it in place
        return said

    @contextmanager
    def _own_work(self) -> Iterator[None]:
        """While our own code runs, the lookout does not look."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def owns(self, module: nn.Module) -> bool:
        return id(module) in self.names

    def attend(self, module: nn.Module, request: AttentionRequest) -> Output:
        """Compute a call, and remember it until W_O has read it."""
        index = self.count
        self.count += 1
        if index >= len(self.layout.sites) or self.layout.sites[index].module != self.names[id(module)]:
            raise LayoutChanged
        with self._own_work():
            request = self.padded(request, self.names[id(module)], self.layout.sites[index].cross)
            attended = self.compute(request)
            self._remember(index, request, attended)
        return attended.output

    def _remember(self, index: int, request: AttentionRequest, attended: Attended) -> None:
        if self.remaining is None or index in self.remaining:
            self.pending[index] = (request, attended)
            if self.layout.sites[index].output is None:
                self.emit(index, None, None)

    def padded(self, request: AttentionRequest, module: str, cross: bool) -> AttentionRequest:
        """The request with what is padding in it."""
        with _disable_current_modes():
            return with_padding(request, self.inputs, module, cross, bool(getattr(getattr(self.clone, "config", None), "is_encoder_decoder", False)))

    def compute(self, request: AttentionRequest) -> Attended:
        """What the call comes to. No mode listens meanwhile: under one, torch never lets go of what it hands to a kernel by DLPack."""
        with _disable_current_modes():
            return self._computed(request)

    def _computed(self, request: AttentionRequest) -> Attended:
        segments = self.spec.segments
        if segments is None or "segment" not in self.spec.statistics:
            return compute(request.query, request.key, request.value, request.call, self.spec.statistics)
        fits = tuple(segments.shape) == (request.key.shape[0], request.key.shape[2])
        labels = segments if fits else torch.full((request.key.shape[0], request.key.shape[2]), -1)  # keys that are other tokens carry no label
        call = replace(request.call, segments=labels.to(request.key.device))
        return compute(request.query, request.key, request.value, call, self.spec.statistics)

    def emit(self, index: int, z: Tensor | None, w_o_output: Tensor | None) -> None:
        request, attended = self.pending.pop(index)
        if self.spec.calls is None or index in self.spec.calls:
            self.spec.on_record(AttentionRecord(index, request, attended, z, w_o_output))
        if self.remaining is not None:
            self.remaining.discard(index)
            if not self.remaining:
                raise _PassEnded

    def _projection_hook(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
            output = self.layout.by_output.get((name, self.uses[name]))
            self.uses[name] += 1
            if output is None:
                return
            if not any(index in self.pending for index in output.calls):
                return
            with self._own_work():
                shapes = [z_shape(self.pending[index][1].output) for index in output.calls]
                reads = split_by_call(args[0] if args else kwargs["input"], output, shapes)
                for index, z, write in zip(output.calls, reads, split_output_by_call(result, output, shapes), strict=True):
                    self.emit(index, z, write)

        return hook


def _with_companions(layout: Layout, calls: Collection[int]) -> set[int]:
    """The calls, and those whose tokens W_O reads together with theirs."""
    outputs = [layout.sites[index].output for index in calls]
    return set(calls).union(*(output.calls for output in outputs if output is not None))


def z_shape(z: Output) -> tuple[int, int, int, int]:
    """[B, T, H, E] of z, as W_O reads it."""
    b, h, t, e = z.shape
    return b, t, h, e

"""The first pass over a kind of input: which attention calls come by, which do not, and where W_O is.

W_O of a call is the first Linear or Conv1D after it that reads exactly what its heads say; where something comes between
(a gate, a norm), the last one inside the calling module that reads H x E numbers, provided that each head's numbers depend on
that head alone: seen by running the module again with some heads' words changed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import torch
from torch import nn

from headwise.attention.call import Attended
from headwise.axes import Output as Said
from headwise.axes import Tensor
from headwise.errors import ModelError, UnseenAttention
from headwise.models.capture.attention_request import AttentionRequest
from headwise.models.capture.cache_snapshot import Snapshot, restore_snapshot, take_snapshot
from headwise.models.capture.eager_capture import are_distributions, count_heads, request_from_fused, request_from_weights
from headwise.models.capture.head_separability import mixing_reason, perturb_heads
from headwise.models.capture.hf_attention import recording
from headwise.models.capture.output_projection import InputMatch, has_token_order, match_z
from headwise.models.capture.recorder import AttentionRecord, CaptureSpec, Recorder, z_shape
from headwise.models.capture.softmax_detector import ATTENTION, SoftmaxDetector, unread_attention
from headwise.models.hooks.z_hooks import set_use_counts, use_counts
from headwise.models.layout import AttentionSite, Layout, OutputProjection, is_linear, split_by_call, split_output_by_call

CROSS = re.compile(r"cross|enc_?dec|encoder_attn", re.IGNORECASE)
SOURCES = ("key_value_states", "encoder_hidden_states", "cross_attention_states", "context", "memory")


@dataclass(eq=False)
class ModuleFrame:
    """One use of a module that is running, with the attention calls that it has made.

    Attributes:
        start: how many uses of linear modules there had been when it began.
        caches: the state, when it began, of the caches that it was given.
        found: what could be W_O of its calls, as far as the pass has come.
        exact_readers: linear modules that read exactly what its heads say.
    """

    name: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    start: int
    calls: list["PendingCall"] = field(default_factory=list)
    caches: Snapshot = field(default_factory=list)
    found: "ProjectionCandidate | None" = None
    exact_readers: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class PendingCall:
    """A call whose W_O is not known yet."""

    index: int
    module: str
    cross: bool
    request: AttentionRequest
    attended: Attended
    heads: int | None = None
    blocks: bool = False


@dataclass(frozen=True, eq=False)
class ProjectionCandidate:
    """A linear module that read as many numbers a token as the heads say.

    Attributes:
        calls: how many calls its frame had made until then.
    """

    calls: int
    module: str
    use: int
    use_in_frame: int
    read: Tensor
    written: Tensor
    words: InputMatch


@dataclass(eq=False)
class Replay:
    """Another run of one module, in which its calls are answered with given words."""

    words: list[Tensor]
    module: str
    use: int
    seen: int = 0
    read: Tensor | None = None


class LayoutDiscovery(Recorder):
    """Runs the twin once with every module watched, and draws the layout."""

    def __init__(self, clone: nn.Module, inputs: Mapping[str, Any], spec: CaptureSpec, entry: str = "") -> None:
        super().__init__(clone, Layout(()), inputs, spec, entry)
        self.stack: list[ModuleFrame] = []
        self.waiting: list[ModuleFrame] = []  # returned, and W_O of their calls still to come
        self.sites: dict[int, AttentionSite] = {}
        self.replay: Replay | None = None
        self.linear_uses: list[str] = []
        self.ran: dict[str, str] = {}

    def run(self) -> tuple[Any, Layout]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The model's output, and the layout.

        Raises:
            UnseenAttention: some attention does not pass through the interface.
            ModelError: there is no attention.
        """
        for name, module in self.clone.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                continue
            module.register_forward_pre_hook(self._enter(name), with_kwargs=True)
            module.register_forward_hook(self._leave(name), with_kwargs=True)
        detector = SoftmaxDetector(self, [*self.clone.parameters(), *self.clone.buffers()])
        with recording(self), torch.inference_mode(False), torch.no_grad(), detector, self._by_distance():
            outputs = self.entry(**self.inputs)
        for frame in self.waiting:
            self._decide(frame, None, f"no Linear or Conv1D after it reads H x E = {_width(frame)} numbers a token")
        notes = self._check(detector)
        return outputs, Layout(tuple(self.sites[index] for index in range(self.count)), notes)

    def where(self) -> tuple[tuple[str, str], ...]:
        return tuple((frame.name, type(frame.module).__name__) for frame in self.stack)

    def attend(self, module: nn.Module, request: AttentionRequest) -> Said:
        if self.replay is not None:
            return self.replay.words.pop(0)
        with self._own_work():
            attended = self.compute(request)
        frame = next((frame for frame in reversed(self.stack) if frame.module is module), self.stack[-1])
        cross = _is_cross(frame, request)
        with self._own_work():
            request = self.padded(request, self.names[id(module)], cross)
        frame.calls.append(PendingCall(self.count, self.names[id(module)], cross, request, attended))
        self.count += 1
        return attended.output

    def capture_product(self, weights: Tensor, value: Tensor, said: Tensor, shape: tuple[int, ...]) -> Tensor | None:
        """A product of weights with values: a call, if its rows are weights and its heads can be counted."""
        with self._own_work():
            if weights.numel() and bool(weights.isnan().all()):
                name = self.stack[-1].name or "the model itself"
                raise ModelError(
                    f"{type(self.clone).__name__} itself computes NaN as every attention weight of {name} on this input in {weights.dtype}. Try float32."
                )
            around = [frame.module for frame in reversed(self.stack)]
            heads = count_heads(shape, around, weights) if are_distributions(weights) else None
            if heads is None:
                return None
            if self.replay is not None:
                return self.replay.words.pop(0).flatten(0, 1)
            return self._captured(request_from_weights(weights, value, heads), said.unflatten(0, (-1, heads)), said)

    def capture_fused(self, named: dict[str, Any], said: Tensor) -> Tensor | None:
        if named["query"].dim() != 4:
            return None
        if self.replay is not None:
            return self.replay.words.pop(0)
        with self._own_work():
            return self._captured(request_from_fused(named, self.split_mask), said, said)

    def _captured(self, request: AttentionRequest, z: Said, said: Tensor) -> Tensor:
        frame = self.stack[-1]
        attended = replace(self.compute(request), output=z.clone())  # the model may add to it in place
        blocks = _are_blocks(frame, request)
        cross = not blocks and _is_cross(frame, request)
        request = self.padded(request, frame.name, cross)
        frame.calls.append(PendingCall(self.count, frame.name, cross, request, attended, z.shape[1], blocks))
        self.count += 1
        return said

    def _enter(self, name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self.replay is None:
                self.stack.append(ModuleFrame(name, module, args, kwargs, len(self.linear_uses), caches=take_snapshot((*args, *kwargs.values()))))
                self.ran[name] = type(module).__name__

        return hook

    def _leave(self, name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            if self.replay is not None:
                self._intercepted(name, args, kwargs)
                return
            with self._own_work():
                if is_linear(module) and isinstance(result, Tensor):
                    self._linear(name, args[0] if args else kwargs["input"], result)
                self._returned(self.stack[-1])
            self.stack.pop()

        return hook

    def _linear(self, name: str, read: Tensor, written: Tensor) -> None:
        """A linear module has run: it may hold W_O of calls that wait for one."""
        use = self.linear_uses.count(name)
        self.linear_uses.append(name)
        for frame in [*self.waiting, *(frame for frame in self.stack if frame.calls)]:
            self._close(frame)
            if not frame.calls or read.shape[-1] != _width(frame):
                continue
            words = match_z(read, [call.attended.output for call in frame.calls])
            if words is InputMatch.EXACT or words is InputMatch.SEQUENCE_FIRST:
                frame.exact_readers.append(name)
            if frame.found is None or frame.found.words is InputMatch.OTHER:
                frame.found = ProjectionCandidate(len(frame.calls), name, use, self.linear_uses[frame.start : -1].count(name), read, written, words)
            if frame in self.waiting:
                self.waiting.remove(frame)
                self._settle(frame, inside=False)

    def _close(self, frame: ModuleFrame) -> None:
        """Settle the calls whose W_O has been found, where further calls came after it (ProphetNet: one for each stream)."""
        found = frame.found
        if found is not None and found.words is not InputMatch.OTHER and found.calls < len(frame.calls):
            later = frame.calls[found.calls :]
            frame.calls = frame.calls[: found.calls]
            self._settle(frame, inside=True)
            frame.calls, frame.found, frame.exact_readers = later, None, []

    def _returned(self, frame: ModuleFrame) -> None:
        self._close(frame)
        if frame.calls and frame.found is None:
            self.waiting.append(frame)
        elif frame.calls:
            self._settle(frame, inside=True)

    def _settle(self, frame: ModuleFrame, inside: bool) -> None:
        """Accept what was found as W_O of a frame's calls, or say why not."""
        found = frame.found
        others = sorted(set(frame.exact_readers) - {found.module})
        refusal = None
        if others:
            refusal = f"both {found.module} and {others[0]} read what its heads say (an adapter that is not merged?)"
        elif found.words is InputMatch.OTHER and not inside:
            refusal = f"{found.module}, the first after it that could hold W_O, reads something else than what its heads say"
        elif found.words is InputMatch.OTHER and not has_token_order(found.read, [call.attended.output for call in frame.calls]):
            refusal = f"{found.module} reads {list(found.read.shape)}, in which the tokens cannot be told apart"
        elif found.words is InputMatch.OTHER:
            reason = mixing_reason(found.read, frame.calls[0].request.query.shape[1], lambda chosen: self._again(frame, chosen))
            refusal = None if reason is None else f"what {found.module} reads of {reason}"
        self._decide(frame, found, refusal)

    def _again(self, frame: ModuleFrame, chosen: Tensor) -> Tensor:
        """What W_O reads when the chosen heads say something else."""
        words = [perturb_heads(call.attended.output, chosen) for call in frame.calls]
        self.replay = replay = Replay(words, frame.found.module, frame.found.use_in_frame)
        before, self.busy = self.busy, False
        turns = use_counts(frame.module)
        since = self.linear_uses[frame.start :]
        set_use_counts({module: use - since.count(self.names[id(module)]) for module, use in turns.items()})
        now = take_snapshot((*frame.args, *frame.kwargs.values()))
        restore_snapshot(frame.caches)
        try:
            with torch.random.fork_rng(devices=()):  # what this draws, the rest of the pass must not miss
                frame.module(*frame.args, **frame.kwargs)
        finally:
            restore_snapshot(now)
            self.replay, self.busy = None, before
            set_use_counts(turns)
        if replay.read is None:
            raise ModelError(f"{frame.name} must do the same when it runs again, got another way through it. Its heads cannot be told apart.")
        return replay.read

    def _intercepted(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if name == self.replay.module:
            if self.replay.seen == self.replay.use:
                self.replay.read = args[0] if args else kwargs["input"]
            self.replay.seen += 1

    def _decide(self, frame: ModuleFrame, found: ProjectionCandidate | None, refusal: str | None) -> None:
        """Write down where W_O of a frame's calls is, or why they have none, and tell the listener of the calls."""
        output, reads, writes = None, [None] * len(frame.calls), [None] * len(frame.calls)
        if found is not None and refusal is None:
            calls = tuple(call.index for call in frame.calls)
            output = OutputProjection(found.module, found.use, calls, found.words is not InputMatch.OTHER, found.words is InputMatch.SEQUENCE_FIRST)
            shapes = [z_shape(call.attended.output) for call in frame.calls]
            reads, writes = split_by_call(found.read, output, shapes), split_output_by_call(found.written, output, shapes)
        for call, read, written in zip(frame.calls, reads, writes, strict=True):
            self.sites[call.index] = AttentionSite(call.index, call.module, call.cross, output, refusal, call.heads, call.blocks)
            self.spec.on_record(AttentionRecord(call.index, call.request, call.attended, read, written))
        frame.calls = []

    def _check(self, detector: SoftmaxDetector) -> tuple[str, ...]:
        """Refuse attention that could not be read; note what calls itself attention and has no weights to show."""
        callers = [site.module for site in self.sites.values()]
        missed, other = unread_attention(detector, callers)
        if missed:
            raise UnseenAttention(
                f"attention of a model must have weights whose rows add up to 1 and that multiply values, got {len(missed)} modules of "
                f"{type(self.clone).__name__} where they do not: {name_list(missed)}. Their heads would be missing, so this model cannot be opened yet."
            )
        if not callers and other:
            raise UnseenAttention(
                f"attention of a model must be seen to multiply values with its weights as a matrix, got {len(other)} modules of {type(self.clone).__name__} "
                f"where that is not seen: {name_list(other)}. Sampling points, lags, and bands cut into chunks cannot be read yet."
            )
        if not callers:
            raise UnseenAttention(f"a model must compute attention with a softmax, got none from {type(self.clone).__name__}. It has no attention to show.")
        kind = "not seen: its softmax is not seen to multiply values as a matrix (sampling points, lags, bands cut into chunks)"
        silent = [name for name, kind in self.ran.items() if ATTENTION.search(kind) and not any(_related(name, record) for record in (*callers, *other))]
        notes = ((other, kind), (silent, "attention without a softmax, which has no weights to show"))
        return tuple(f"{name_list(names)}: {note}" for names, note in notes if names)


def _width(frame: ModuleFrame) -> int:
    """H x E of the calls of a frame; -1 where they differ, as no module reads that."""
    widths = {call.attended.output.shape[1] * call.attended.output.shape[3] for call in frame.calls}
    return widths.pop() if len(widths) == 1 else -1


def _is_cross(frame: ModuleFrame, request: AttentionRequest) -> bool:
    """Whether the keys are other tokens than the queries: by their number, by name, or by what the module was given."""
    if request.query.shape[2] != request.key.shape[2] or CROSS.search(type(frame.module).__name__) or CROSS.search(frame.name.rpartition(".")[2]):
        return True
    given = signature(frame.module.forward).bind_partial(*frame.args, **frame.kwargs).arguments
    return any(isinstance(given.get(name), Tensor) for name in SOURCES)


def _are_blocks(frame: ModuleFrame, request: AttentionRequest) -> bool:
    """Whether the batch rows are blocks of the module's own tokens, with a query for each of these.

    They are more than the rows that it was given; or, of a text that fits into one block, as many, each longer than the text and with neighbours around it.
    """
    own = next((x for x in (*frame.args, *frame.kwargs.values()) if isinstance(x, Tensor) and x.is_floating_point() and x.dim() == 3), None)
    b, _, t, _ = request.query.shape
    keys = request.key.shape[2]
    if own is None or t == keys:
        return False
    rows, tokens = own.shape[:2]
    return (b > rows and b * t >= rows * tokens) or (b == rows and keys > t > tokens)


def _related(name: str, caller: str) -> bool:
    return not name or name == caller or name.startswith(f"{caller}.") or caller.startswith(f"{name}.")


def name_list(names: list[str]) -> str:
    """A few of the names, and how many more there are."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"

"""Running a pass again from one layer's W_O on, with other words from some heads, for many choices of heads in one batch.

Blocks before that layer give what they gave; in its own block attention is answered with the words that were said before. So a
change at layer l costs the layers from W_O of l on, and every number of it is what the whole pass would have given: that
blocks can be answered so is tried on the pass itself, and where it is not so the whole model is run.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from headwise.analysis.ablation.activation_cache import (
    ActivationCache,
    BlockRecord,
    blocks_of,
    detach_parameters,
    first_tensor,
    placeholders,
    repeat_batch,
    replace_forward,
)
from headwise.attention.attend import compute
from headwise.axes import Bool, Float, Output, Tensor
from headwise.errors import HeadwiseError, ModelError
from headwise.models.capture.attention_request import AttentionRequest, MaskSplitter
from headwise.models.capture.forward_pass import ForwardPass, explain_errors, output_tensors, restored_rng, run_unmodified
from headwise.models.capture.hf_attention import IMPLEMENTATION, recording, register
from headwise.models.capture.recorder import LayoutChanged
from headwise.models.capture.torch_mha import instrument_mha
from headwise.models.hooks.shallow_clone import shallow_clone
from headwise.models.layout import OutputProjection as Projection
from headwise.models.layout import split_by_call

SLACK = 1e-4  # of the largest output: what answering blocks may differ by from running them, in float32; more for narrower numbers
ZChange = Callable[[int, Float[Tensor, "R T H E"]], Float[Tensor, "R T H E"]]


class PartialForward:
    """One input of a model, run once and then again with changes.

    Args:
        session: of a run on that input, or on a shorter one of its kind.
        ways: `reuses` and `copies` as another pass of the same model found them; tried on this one when absent.

    Raises:
        LayoutChanged: the model takes another way on this input than the session's layout says.

    Attributes:
        tape: the pass as it was.
        batch: rows of the input.
        reuses: blocks before a change are answered and not run.
        copies: several choices of heads can go into one batch.
        is_chunked: logits are exactly what the map to the vocabulary gives: so they can be made some tokens at a time, and `logits`
            among outputs stands for what that map reads.
    """

    def __init__(self, session: ForwardPass, ways: tuple[bool, bool] | None = None) -> None:
        register()
        self.session = session
        self.twin: Any = shallow_clone(session.hf, IMPLEMENTATION)
        instrument_mha(self.twin)
        detach_parameters(self.twin)
        self.names = {id(module): name for name, module in self.twin.named_modules()}
        self.model_kwargs = frozenset(session.inputs)
        self.split_mask = MaskSplitter()
        self.causal_masks_left_out, self.has_sdpa = False, False
        self.head = unembedding_of(self.twin)
        self.cache = ActivationCache()
        self._recording, self._times, self._start = True, 1, (0, 0)
        self._change: ZChange = _unchanged
        self.is_chunked = False
        self._reset()
        self._dress()
        self.batch = _batch_of(session.inputs)
        self.cache.outputs = self._run()
        self._recording = False
        if len(self.cache.z) != sum(site.heads is None for site in session.layout.sites):
            raise LayoutChanged
        self._ways = ways
        self._take_logits_apart()

    def outputs(self, calls: Sequence[int], change: ZChange, times: int) -> Mapping[str, Tensor]:
        """What the model returns when W_O reads something else of these attention calls.

        Args:
            calls: by number; the pass is run from the first of them on.
            change: from a call's number and what W_O would read of it, times x batch rows, to what it is to read.
            times: copies of the batch.
        """
        self._prepare(calls, change, times, self.reuses)
        return self._run()

    def _prepare(self, calls: Sequence[int], change: ZChange, times: int, reuses: bool) -> None:
        step, answered = min(self.cache.resume_points[call] for call in calls)
        self._start, self._times, wanted = (step if reuses else 0, answered), times, set(calls)
        self._change = lambda call, read: change(call, read) if call in wanted else read

    @property
    def reuses(self) -> bool:
        return self._tried()[0]

    @property
    def copies(self) -> bool:
        return self._tried()[1]

    def logits(self, rows: Float[Tensor, "n x"]) -> Float[Tensor, "n V"]:
        """Logits of rows of what `outputs` gives as logits."""
        return self._head_forward(rows) if self.is_chunked else rows

    # What the tap asks of a watch.
    def owns(self, module: nn.Module) -> bool:
        return id(module) in self.names

    def attend(self, module: nn.Module, asked: AttentionRequest) -> Output:
        """Compute a call, or answer it with what was said before."""
        index, self._calls = self._calls, self._calls + 1
        if self._recording:
            sites = [site for site in self.session.layout.sites if site.heads is None]
            if index >= len(sites) or sites[index].module != self.names[id(module)]:
                raise LayoutChanged
            b, h, t, _ = asked.query.shape
            self.cache.shapes.append((b, h, asked.key.shape[1], t, asked.key.shape[2]))
            self.cache.z.append(compute(asked.query, asked.key, asked.value, asked.call).output)
            return self.cache.z[-1]
        if index < self._start[1]:
            return repeat_batch(self.cache.z[index], self.batch, self._times)
        return compute(asked.query, asked.key, asked.value, asked.call).output

    def _run(self) -> Mapping[str, Tensor]:
        self._reset()
        given = self.session.inputs if self._times == 1 else repeat_batch(dict(self.session.inputs), self.batch, self._times)
        with restored_rng(self.session.rng_state), recording(self), torch.inference_mode(False), torch.no_grad():  # pyright: ignore[reportArgumentType]
            return output_tensors(explain_errors(self.session.hf, lambda: self.twin(**given), lambda: run_unmodified(self.session.hf, given)))

    def _reset(self) -> None:
        self._calls, self._steps, self._uses = 0, 0, Counter[str]()

    def _dress(self) -> None:
        """Every block, every W_O and the map to the vocabulary of the twin go through us."""
        for name in blocks_of(self.twin, self.session.layout):
            block = self.twin.get_submodule(name)
            replace_forward(block, partial(self._block, name, block.forward))
        for name in {output.module for output in self.session.layout.by_output.values()}:
            self.twin.get_submodule(name).register_forward_pre_hook(partial(self._projection, name), with_kwargs=True)
        if self.head is not None:
            self._head_forward = self.head.forward
            replace_forward(self.head, self._to_vocabulary)

    def _block(self, name: str, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        index, self._steps = self._steps, self._steps + 1
        if not self._recording and index < self._start[0]:
            step = self.cache.blocks[index]
            self._calls += step.calls
            self._uses.update(step.uses)
            read_on = index == self._start[0] - 1  # what the others gave goes into blocks that are answered too
            return repeat_batch(step.output, self.batch, self._times) if read_on else placeholders(step.output, self.batch, self._times)
        if not self._recording:
            return forward(*args, **kwargs)
        given = first_tensor(args, kwargs)
        before, uses = self._calls, Counter(self._uses)
        kept = None if given is None else given.clone()  # the block may write into it
        result = forward(*args, **kwargs)
        copied = tree_map_only(torch.Tensor, torch.clone, result)
        self.cache.blocks.append(BlockRecord(name, kept, copied, self._calls - before, self._uses - uses))
        return result

    def _projection(self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Before a W_O: write down what it reads, or change it."""
        output = self.session.layout.by_output.get((name, self._uses[name]))
        self._uses[name] += 1
        if output is None:
            return None
        read = args[0] if args else kwargs["input"]
        if self._recording:
            for call, part in zip(output.calls, split_by_call(read, output, self._shapes(output, read)), strict=True):
                self.cache.wo_inputs[call] = part.clone()
                self.cache.resume_points[call] = (max(self._steps - 1, 0), self._calls)
            return None
        parts = split_by_call(read, output, self._shapes(output, read))
        changed = [self._change(call, part) for call, part in zip(output.calls, parts, strict=True)]
        if all(new is old for new, old in zip(changed, parts, strict=True)):
            return None
        rows = merge_calls(changed, output, read)
        return ((rows, *args[1:]), kwargs) if args else ((), {**kwargs, "input": rows})

    def _shapes(self, output: Projection, read: Tensor) -> list[tuple[int, int, int, int]]:
        """[B, T, H, E] of each call that this W_O reads, in this pass."""
        if not self._recording:
            return [(self._times * b, t, h, e) for b, t, h, e in (tuple(self.cache.wo_inputs[call].shape) for call in output.calls)]
        return [self._recorded_shape(call, read, len(output.calls)) for call in output.calls]

    def _recorded_shape(self, call: int, read: Tensor, calls: int) -> tuple[int, int, int, int]:
        site = self.session.layout.sites[call]
        if site.heads is None:
            ours = sum(other.heads is None for other in self.session.layout.sites[:call])
            b, h, t, e = self.cache.z[ours].shape
            return b, t, h, e
        tokens = read.numel() // read.shape[-1] // calls  # the model computes this attention itself; its calls are alike
        return self.batch, tokens // self.batch, site.heads, read.shape[-1] // site.heads

    def _to_vocabulary(self, x: Tensor) -> Tensor:
        if self._recording:
            given = self._head_forward(x)
            self.cache.unembed_input, self.cache.unembed_output = x, given
            return given
        return x if self.is_chunked else self._head_forward(x)

    def _take_logits_apart(self) -> None:
        """See `is_chunked`. The logits themselves, which are large, are then dropped."""
        read, out, whole = self.cache.unembed_input, self.cache.unembed_output, self.cache.outputs
        logits = whole.get("logits")
        self.cache.unembed_output = None
        if not self.cache.resume_points or logits is None or read is None or out is None or logits.shape != out.shape or not torch.equal(logits, out):
            return
        self.is_chunked, self.cache.outputs = True, {**whole, "logits": read}
        last = max(self.cache.resume_points)
        if not self._same(last, 1, reuses=True) and not self._same(last, 1, reuses=False):
            self.is_chunked, self.cache.outputs = False, whole  # the model does something with logits that happens to change none

    def _tried(self) -> tuple[bool, bool]:
        """Whether blocks can be answered, and whether copies can go into one batch: seen on the pass without any change."""
        if self._ways is None:
            calls = sorted(self.cache.resume_points)
            reuses = bool(calls) and all(self._same(call, 1, reuses=True) for call in {calls[len(calls) // 2], calls[-1]})
            self._ways = reuses, bool(calls) and self._same(calls[-1], 2, reuses=reuses)
        return self._ways

    def _same(self, call: int, times: int, reuses: bool) -> bool:
        self._prepare([call], _unchanged, times, reuses)
        try:
            found = self._run()
        except (HeadwiseError, RuntimeError, IndexError):
            return False  # the model passes something from block to block by another way
        return all(_close(found[name], x, times) for name, x in self.cache.outputs.items() if name in found and x.is_floating_point())


def merge_calls(parts: Sequence[Tensor], output: Projection, like: Tensor) -> Tensor:
    """What W_O is to read, from what it is to read of each call: `apart` the other way round."""
    rows = torch.cat([part.reshape(-1, like.shape[-1]) for part in parts])
    if output.sequence_first:
        return rows.reshape(like.shape[1], like.shape[0], like.shape[2]).transpose(0, 1)
    return rows.reshape(like.shape)


def replace_z(chosen: Bool[Tensor, "N H"], words: Float[Tensor, "#B #T H E"], read: Float[Tensor, "R T H E"]) -> Float[Tensor, "R T H E"]:
    """What W_O reads when in copy n the chosen heads say these words instead."""
    copies = read.unflatten(0, (chosen.shape[0], -1))
    return torch.where(chosen.to(read.device)[:, None, None, :, None], words.to(read), copies).flatten(0, 1)


def _unchanged(call: int, read: Tensor) -> Tensor:
    return read


def unembedding_of(model: nn.Module) -> nn.Linear | None:
    """The map to the vocabulary."""
    try:
        found = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # pyright: ignore[reportCallIssue]
    except (NotImplementedError, AttributeError):
        return None
    return found if isinstance(found, nn.Linear) else None


def _batch_of(given: Mapping[str, Any]) -> int:
    tensors = [x for x in given.values() if isinstance(x, Tensor) and x.dim()]
    if not tensors:
        raise ModelError("input must hold a tensor with a batch, got none. Pass token ids.")
    return tensors[0].shape[0]


def _close(found: Tensor, before: Tensor, times: int) -> bool:
    """Whether every copy is what it was, but for rounding."""
    if found.shape[0] != times * before.shape[0] or found.shape[1:] != before.shape[1:]:
        return False
    slack = SLACK if before.dtype.itemsize >= 4 else 0.05
    apart_by = (found.unflatten(0, (times, -1)).float() - before.float()).abs().amax()
    return bool(apart_by <= slack * before.float().abs().amax())

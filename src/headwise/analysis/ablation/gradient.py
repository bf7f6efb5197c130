"""First-order importance: what the loss would change by, at the rate of this moment, if a head were turned down.

    effect_h = −∂loss/∂gate_h at gate = 1,   gate_h multiplies what the head says before W_O

One forward and one backward give all heads.

References: Michel et al. 2019, section 4.1, equation 2: importance is |∂loss/∂gate|, its mean over texts; the sign is kept here.
"""

from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import nn

from headwise.analysis.ablation.activation_cache import detach_parameters, replace_forward
from headwise.analysis.ablation.eval_text import EvalText
from headwise.analysis.ablation.losses import CrossEntropy, rows_at_once
from headwise.analysis.ablation.partial_forward import merge_calls, unembedding_of
from headwise.axes import Float, Tensor
from headwise.models.capture.forward_pass import ForwardPass, explain_errors, output_tensors, restored_rng
from headwise.models.hooks.shallow_clone import shallow_clone
from headwise.models.implementation import implementation_of
from headwise.models.layout import split_by_call


def effects(passage: EvalText) -> list[Float[Tensor, " H"]]:
    """For each layer, −∂loss/∂gate of its heads."""
    forward = passage.forward
    gates = {call: torch.ones(read.shape[2], device=read.device, requires_grad=True) for call, read in forward.cache.wo_inputs.items()}
    outputs = _Gated(forward.session, gates, forward.is_chunked).run()
    if forward.is_chunked and isinstance(passage.loss, CrossEntropy):
        _backward(outputs["logits"], passage.loss)
    else:
        passage.loss(outputs, 1).sum().backward()
    return [-_grad(gates[place.index]).double().cpu() for place in passage.places]


def _grad(gate: Tensor) -> Tensor:
    return torch.zeros_like(gate) if gate.grad is None else gate.grad


def _backward(final: Float[Tensor, "B T x"], loss: CrossEntropy) -> None:
    """Back to the gates, with the logits of some tokens at a time."""
    rows = final.detach().flatten(0, 1)
    slope = torch.zeros_like(rows)
    step = rows_at_once(loss.forward)
    for places, labels in zip(loss.places.split(step), loss.labels.split(step), strict=True):
        some = rows[places].requires_grad_()
        nn.functional.cross_entropy(loss.forward.logits(some).float(), labels, reduction="sum").backward()
        slope[places] = some.grad / loss.tokens
    final.backward(slope.view_as(final))


class _Gated:
    """A twin with a gate on each head, and no gradient of any weight."""

    def __init__(self, session: ForwardPass, gates: dict[int, Tensor], short_head: bool) -> None:
        self.session, self.gates = session, gates
        self.twin: Any = shallow_clone(session.hf, implementation_of(session.hf))
        self.uses: Counter[str] = Counter()
        detach_parameters(self.twin)
        head = unembedding_of(self.twin)
        if short_head and head is not None:
            replace_forward(head, lambda x: x)
        for name in {output.module for output in session.layout.by_output.values()}:
            self.twin.get_submodule(name).register_forward_pre_hook(partial(self._gate, name), with_kwargs=True)

    def run(self) -> dict[str, Tensor]:
        with restored_rng(self.session.rng_state), torch.inference_mode(False), torch.enable_grad():
            outputs = explain_errors(self.session.hf, lambda: self.twin(**self.session.inputs), self.session.run_unmodified)
        named = outputs if hasattr(outputs, "items") else dict.fromkeys(output_tensors(outputs), outputs)
        return {name: x for name, x in named.items() if isinstance(x, Tensor)}

    def _gate(self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = self.session.layout.by_output.get((name, self.uses[name]))
        self.uses[name] += 1
        if output is None:
            return None
        read = args[0] if args else kwargs["input"]
        shapes = [self._shape(call, read, len(output.calls)) for call in output.calls]
        parts = [part * self.gates[call][:, None].to(part) for call, part in zip(output.calls, split_by_call(read, output, shapes), strict=True)]
        rows = merge_calls(parts, output, read)
        return ((rows, *args[1:]), kwargs) if args else ((), {**kwargs, "input": rows})

    def _shape(self, call: int, read: Tensor, calls: int) -> tuple[int, int, int, int]:
        heads = len(self.gates[call])
        return 1, read.numel() // read.shape[-1] // calls, heads, read.shape[-1] // heads

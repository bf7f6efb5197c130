"""Greedy generation with the model's own cache, every pass recorded: the encoder's, the text's, and one for each new token."""

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
from torch import nn
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList
from transformers.generation.utils import GenerationMixin

from headwise.attention.attend import compute
from headwise.axes import Bool, Float, Int, Tensor
from headwise.models.capture.forward_pass import ForwardPass, discover_layout, explain_errors, output_tensors, run_recorded
from headwise.models.capture.hf_attention import IMPLEMENTATION, register
from headwise.models.capture.recorder import AttentionRecord, CaptureSpec, LayoutChanged
from headwise.models.generation.decode_merge import CannotMerge, DecodeMerge
from headwise.models.hooks.shallow_clone import shallow_clone
from headwise.models.layout import Layout
from headwise.models.model_info import is_encoder_decoder


@dataclass(frozen=True, eq=False)
class GenerationPlan:
    """What to generate.

    Attributes:
        inputs: the model's keyword arguments: the text alone.
        start: tokens of the text that the new ones follow.
        stop: tokens of the text and the new ones, at most.
        ends: tokens that end a text.
        pad: what stands behind an end.
        forced: the tokens, text and new ones, where they are known already.
    """

    inputs: Mapping[str, Any]
    start: int
    stop: int
    ends: tuple[int, ...]
    pad: int
    forced: Int[Tensor, "B T"] | None = None


@dataclass(eq=False)
class DecodeSteps:
    """All passes of one generation.

    Attributes:
        layouts: by kind of pass; an unknown one is found in a pass over copies of the inputs, so that the cache takes in each token once.
    """

    hf: nn.Module
    layouts: dict[str, Layout] = field(default_factory=dict)
    merge: DecodeMerge = field(default_factory=DecodeMerge)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    passes: int = 0

    def run(self, plan: GenerationPlan, config: GenerationConfig) -> Int[Tensor, "B T"]:
        """Text and new tokens. The last new token is read too, so that every token has its row.

        Raises:
            CannotJoin: the steps are not rows of one attention.
        """
        register()
        other = shallow_clone(self.hf, IMPLEMENTATION)
        other.generation_config = config
        encoder = other.get_encoder() if is_encoder_decoder(self.hf) else None
        name = next((name for name, module in other.named_modules() if module is encoder), "")
        other.forward = wraps(other.forward)(self._recorded(""))
        if encoder is not None and name:
            encoder.forward = wraps(encoder.forward)(self._recorded(name))
        extra = {"logits_to_keep": 0} if other._supports_logits_to_keep() else {}
        kept = GenerationConfig(**{**config.to_diff_dict(), "max_new_tokens": plan.stop - plan.start + 1, "eos_token_id": None})
        with torch.inference_mode(False), torch.no_grad():
            found = GenerationMixin.generate(  # pyright: ignore[reportAttributeAccessIssue]
                other,
                **plan.inputs,
                **extra,
                generation_config=kept,
                logits_processor=LogitsProcessorList([_Chosen(plan)]),
                stopping_criteria=StoppingCriteriaList([_AllEnded(plan)]),
            )
        return found[:, :-1]

    def _recorded(self, entry: str) -> Callable[..., Any]:
        """A replacement for the model's forward, or its encoder's: a recorded pass on a clone of its own."""

        def forward(**inputs: Any) -> Any:
            kind = entry or ("text" if self.passes == 0 else "step")
            self.passes += not entry
            if kind not in self.layouts:
                _, self.layouts[kind] = discover_layout(self.hf, copy.deepcopy(inputs), CaptureSpec((), lambda record: None), entry)
            records: list[AttentionRecord] = []
            try:
                outputs = run_recorded(self.hf, inputs, self.layouts[kind], CaptureSpec((), records.append), entry)
            except LayoutChanged:
                raise CannotMerge("its steps take different ways through the model") from None
            self.merge.add(self.layouts[kind], sorted(records, key=lambda one: one.index))
            if not entry:
                self._returned(output_tensors(outputs))
            return outputs

        return forward

    def _returned(self, tensors: Mapping[str, Tensor]) -> None:
        """Append what a step returned for its token to what the passes before it returned."""
        for name, x in tensors.items():
            have = self.outputs.get(name)
            if have is None:
                self.outputs[name] = x
            elif x.dim() >= 2 and x.shape[1] == 1 and x.shape[:1] == have.shape[:1] and x.shape[2:] == have.shape[2:]:
                self.outputs[name] = torch.cat([have, x], 1)

    def emit(self, on_record: Callable[[AttentionRecord], None], real: Bool[Tensor, "B T"], calls: Collection[int] | None, names: tuple[str, ...]) -> None:
        """Hand over a record of each call, merged: all its rows, with their statistics.

        Args:
            real: True where a token is no padding: neither before its text nor behind its end.
        """
        over = None if bool(real.all()) else ~real
        for index, history in enumerate(self.merge.histories.values()):
            if calls is not None and index not in calls:
                continue
            record = history.whole(index, over, real)
            request = record.request
            found = compute(request.query, request.key, request.value, request.call, names).statistics if names else {}
            on_record(AttentionRecord(index, request, _with(record.attended, found), record.z, record.w_o_output))


@dataclass(frozen=True, eq=False)
class GenerationPass(ForwardPass):
    """A generation that can be run again: its tokens are known, so that each step takes the same one."""

    plan: GenerationPlan | None = None
    config: GenerationConfig | None = None
    real: Tensor | None = None
    layouts: Mapping[str, Layout] = field(default_factory=dict)

    def rerun(self, on_record: Callable[[AttentionRecord], None], calls: Collection[int] | None = None, statistics: tuple[str, ...] = ()) -> Any:
        steps = DecodeSteps(self.hf, dict(self.layouts))
        explain_errors(self.hf, lambda: steps.run(self.plan, self.config), lambda: generate_unmodified(self.hf, self.plan, self.config))  # pyright: ignore[reportArgumentType]
        steps.emit(on_record, self.real, calls, statistics)  # pyright: ignore[reportArgumentType]
        return steps.outputs


def generate_unmodified(hf: Any, plan: GenerationPlan, config: GenerationConfig) -> Int[Tensor, "B T"]:
    """Text and new tokens from the model's own generation, without us."""
    clone = shallow_clone(hf, None)
    clone.generation_config = config
    request = GenerationConfig(**{**config.to_diff_dict(), "max_new_tokens": plan.stop - plan.start, "eos_token_id": list(plan.ends) or None})
    with torch.inference_mode(False), torch.no_grad():
        return GenerationMixin.generate(clone, **plan.inputs, generation_config=request)  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]


def _with(attended: Any, statistics: Mapping[str, Tensor]) -> Any:
    return type(attended)(attended.output, attended.lse, statistics)


class _Chosen(LogitsProcessor):
    """Forces a step to the token that is known, and a row that has ended to padding."""

    def __init__(self, plan: GenerationPlan) -> None:
        self.plan = plan

    def __call__(self, input_ids: Int[Tensor, "B t"], scores: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        forced, here = self.plan.forced, input_ids.shape[1]
        if forced is not None:
            taken = forced[:, here] if here < forced.shape[1] else forced[:, -1]
            return torch.full_like(scores, -torch.inf).scatter(1, taken[:, None], 0.0)
        padding = torch.full_like(scores, -torch.inf)
        padding[:, self.plan.pad] = 0.0
        return torch.where(_ended(input_ids, self.plan)[:, None], padding, scores)


class _AllEnded(StoppingCriteria):
    """Stops one pass after every row has ended, so that each end token has a row too."""

    def __init__(self, plan: GenerationPlan) -> None:
        self.plan = plan

    def __call__(self, input_ids: Int[Tensor, "B t"], scores: Any, **kwargs: Any) -> Bool[Tensor, " B"]:
        forced = self.plan.forced
        done = bool(_ended(input_ids[:, :-1], self.plan).all()) if forced is None else input_ids.shape[1] > forced.shape[1]
        return torch.full((input_ids.shape[0],), done, device=input_ids.device)


def _ended(ids: Int[Tensor, "B t"], plan: GenerationPlan) -> Bool[Tensor, " B"]:
    return torch.isin(ids[:, plan.start :], torch.tensor(plan.ends, dtype=ids.dtype, device=ids.device)).any(-1)

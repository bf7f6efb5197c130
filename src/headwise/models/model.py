"""A real model, opened."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headwise.attention.attend import statistic_names
from headwise.axes import Bool, Int, Tensor
from headwise.catalog import late
from headwise.deprecation import renamed_parameters
from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.models.capture.forward_pass import ForwardPass, discover_layout, explain_errors, output_tensors, run_recorded
from headwise.models.capture.layout_discovery import name_list
from headwise.models.capture.recorder import CaptureSpec, LayoutChanged
from headwise.models.generation.decode_merge import CannotMerge
from headwise.models.generation.generation_request import cache_disagreement, check_generates, full_inputs, plan_generation
from headwise.models.generation.greedy_generation import DecodeSteps, GenerationPass, GenerationPlan, generate_unmodified
from headwise.models.inputs.encoding import ModelInputs, RunInput, encode
from headwise.models.layout import Layout
from headwise.models.run import Run
from headwise.models.runs.activation_store import ActivationStore, parse_bytes
from headwise.models.runs.places import Place, places
from headwise.models.runs.run_metadata import RunMetadata
from headwise.models.runs.statistics_collector import StatisticsCollector
from headwise.storage.source_files import Origin

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from headwise.interventions.edit import Edit
    from headwise.interventions.edited import EditedModel


class Model:
    """An opened model, whose heads can be read, changed and compared; `open_model` makes one.

    Passes run on a clone that shares the tensors: the model's parameters, hooks, mode and configuration are never touched,
    so that other threads may use or train it meanwhile.

    Attributes:
        hf: the model, as transformers made it.
        tokenizer: transformers' own, or None.
        name: what it was opened from.
        note: what the user should know about its weights, or None.
        origin: the files that it was opened from; None for a model that was loaded already.
    """

    def __init__(
        self, hf: nn.Module, tokenizer: "PreTrainedTokenizerBase | None" = None, name: str = "", note: str | None = None, origin: Origin | None = None
    ) -> None:
        self.hf, self.name, self.note, self.origin = hf, name or type(hf).__name__, note, origin
        self.tokenizer: Any = tokenizer
        self._layouts: dict[Any, Layout] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {type(self.hf).__name__})"

    @renamed_parameters(what="inputs")
    def run(self, inputs: RunInput, statistics: str | Iterable[str] = "all", memory: str | int = "1GiB", segments: Tensor | None = None) -> Run:
        """Run an input through the model once, recording every attention head.

        Args:
            inputs: a text, a list of texts, token ids [T] or [B, T], or a dict of the model's own inputs.
            statistics: names, or "all"; see `hw.statistics()`.
            memory: how much to keep of queries and keys: bytes, or a text like "512MiB". What does not fit is
                recomputed on demand, by running the model again.
            segments: a label for each token, [B, T] from 0, negative for none: for the statistic "segment".

        Raises:
            ArgumentError: nothing to read, too long for the model, an unknown statistic.
            UnseenAttention: some attention of the model does not pass through transformers' attention interface.
            ModelError: a text and no tokenizer, or the model cannot take the input.
        """
        names = statistic_names(statistics)
        budget = parse_bytes(memory)
        encoded = encode(self.hf, self.tokenizer, inputs)
        segments = _segments(self.hf, segments, names, encoded)
        rng_state = torch.random.get_rng_state()
        outputs, layout, collector = self._observe(encoded, names, segments, budget)
        drawn = None if torch.equal(rng_state, torch.random.get_rng_state()) else rng_state
        metadata = self._metadata(encoded, layout, collector)
        returned = output_tensors(outputs)
        room = budget - collector.store.bytes
        fits = sum(x.numel() * x.element_size() for x in returned.values()) <= room
        return self._signed(Run(metadata, collector.store, ForwardPass(self.hf, encoded.kwargs, layout, drawn), returned if fits else None))

    @renamed_parameters(what="inputs")
    def generate(self, inputs: RunInput, max_new_tokens: int, statistics: str | Iterable[str] = "all", memory: str | int = "1GiB") -> Run:
        """Generate greedily with the model's cache, recording every attention head at every step.

        The run is over the text and the new tokens, as if they had been one text: the rows of the text are those of the first pass, and each
        new token's row is what its step computed, also where the cache of a layer with a window had dropped keys. The proof compares it
        with one pass of the model over all of it. Where a model's steps are not rows of one attention (its cache holds something else than keys),
        the numbers are those of one pass over the whole text, with a note.

        Args:
            inputs: as for `run`.
            max_new_tokens: at most; fewer where the model ends the text.

        Raises:
            ModelError: the model has no language head.
            ArgumentError: the statistic `segment`, which labels every token.
            ArgumentError: not a number of tokens, or more than the model has positions for.
        """
        check_generates(self.hf, max_new_tokens)
        names, budget = statistic_names(statistics), parse_bytes(memory)
        if "segment" in names:
            raise ArgumentError("statistics of a generation must need no labels, got 'segment', which labels every token. Use run on the whole text.")
        encoded = encode(self.hf, self.tokenizer, inputs)
        plan, config = plan_generation(self.hf, encoded.kwargs, max_new_tokens)
        steps = DecodeSteps(self.hf)
        try:
            ids = explain_errors(self.hf, lambda: steps.run(plan, config), lambda: generate_unmodified(self.hf, plan, config))
        except CannotMerge as why:
            return self._in_one(encoded, plan, explain_errors(self.hf, lambda: generate_unmodified(self.hf, plan, config), None), names, budget, str(why))
        kwargs, real = full_inputs(self.hf, encoded.kwargs, plan, ids)
        collector = StatisticsCollector(ActivationStore(budget))
        plan = replace(plan, forced=ids, stop=ids.shape[1])
        try:
            steps.emit(collector, real, None, names)
        except CannotMerge as why:
            return self._in_one(encoded, plan, ids, names, budget, str(why))
        layout = steps.merge.layout(tuple(dict.fromkeys(note for one in steps.layouts.values() for note in one.notes)))
        forward_pass = GenerationPass(self.hf, kwargs, layout, None, plan, config, real, steps.layouts)
        fits = sum(x.numel() * x.element_size() for x in steps.outputs.values()) <= budget - collector.store.bytes
        metadata = self._metadata(encode(self.hf, self.tokenizer, kwargs), layout, collector)
        return self._signed(Run(metadata, collector.store, forward_pass, steps.outputs if fits else None))

    def _in_one(self, inputs: ModelInputs, plan: GenerationPlan, ids: Tensor, names: tuple[str, ...], budget: int, why: str) -> Run:
        """A run over text and new tokens in one pass, where the steps are not rows of one attention."""
        kwargs, _ = full_inputs(self.hf, inputs.kwargs, plan, ids)
        run = self.run(kwargs, names, budget).with_note(f"the numbers are those of one pass over the whole text, as steps could not be joined: {why}")
        note = cache_disagreement(kwargs, run.outputs.get("logits"), plan.start)
        return run if note is None else run.with_note(note)

    @renamed_parameters(at="mode")
    def edit(self, edits: "Edit | Sequence[Edit]", mode: str | None = None, inputs: RunInput | None = None) -> "EditedModel":
        """The model with some heads changed; this one is untouched, and shares every tensor that no edit touches.

        Args:
            edits: `hw.Ablate(3, 5)`, `hw.Scale(2, 1, 1.5)`, `hw.Temperature(0, 4, 2.0)`, `hw.TieHeads(1)`, `hw.Prune(4, 2)`, `hw.MaskKeys(2, 7, keys=[0])`:
                one or a list. To undo one is to leave it out.
            mode: "weights", or "run" for as the model runs; None = in the weights wherever that can be. The numbers are the same.
            inputs: what to run once to find the heads, as for `run`; a few tokens when absent.

        Returns:
            A model like this one, with `.report`, which proves what the edits did, and `.save(folder)`.

        Raises:
            ArgumentError: an edit that contradicts another, or that names no layer or head of the model.
            ModelError: an edit that cannot be made in this model, or not in the way asked for.
        """
        return late("headwise.interventions.edited:edit")(self, edits, mode, inputs)

    def show(self, text: str | None = None) -> object:
        """Show the page of this model in a notebook, on this text or on a sample; returns the widget.

        Raises:
            MissingPackage: anywidget is not installed.
        """
        return late("headwise.server.embedded.notebook_widget:model_widget")(self, text)

    def _signed(self, run: Run) -> Run:
        run.model = self
        return run

    def _observe(self, inputs: ModelInputs, names: tuple[str, ...], segments: Tensor | None, budget: int) -> tuple[Any, Layout, StatisticsCollector]:
        """The first pass: with the layout of an earlier input of this kind, or else finding the layout."""
        kind = (tuple(sorted(inputs.kwargs)), _structure(self.hf))
        with self._lock:
            layout = self._layouts.get(kind)
        if layout is not None:
            collector = StatisticsCollector(ActivationStore(budget))
            try:
                outputs = run_recorded(self.hf, inputs.kwargs, layout, CaptureSpec(names, collector, segments=segments))
                return outputs, layout, collector
            except LayoutChanged:
                pass  # this input takes another path through the model: find its layout too
        collector = StatisticsCollector(ActivationStore(budget))
        outputs, layout = discover_layout(self.hf, inputs.kwargs, CaptureSpec(names, collector, segments=segments))
        with self._lock:
            self._layouts[kind] = layout
        return outputs, layout, collector

    def _metadata(self, inputs: ModelInputs, layout: Layout, collector: StatisticsCollector) -> RunMetadata:
        numbers = collector.numbers
        found = tuple(places(self.hf, layout.sites, [numbers[site.index].shape for site in layout.sites]))
        of_calls = _gathered([(place.module, note) for place in found for note in numbers[place.index].notes])
        notes = list(dict.fromkeys((*inputs.notes, *layout.notes, *of_calls)))
        if self.note:
            notes.insert(0, self.note)
        return RunMetadata(found, layout, numbers, inputs.tokens, inputs.decoder_tokens, self._padding(inputs, found, collector), tuple(notes))

    def _padding(self, inputs: ModelInputs, found: Sequence[Place], collector: StatisticsCollector) -> dict[str, Bool[Tensor, "B T"] | None]:
        """Which queries are padding, by part: from the masks where queries and keys are the same tokens, else from the same tower or the input."""
        padding: dict[str, Tensor | None] = {}
        for place in found:
            real = collector.numbers[place.index].padding
            if not place.cross and real is not None and padding.get(place.part) is None:
                padding[place.part] = ~real
            padding.setdefault(place.part, None)
        mask = inputs.kwargs.get("attention_mask")
        for place in found:
            if padding[place.part] is not None:
                continue
            shape = (place.batch, place.queries)
            if place.cross:
                sibling = padding.get(place.part.replace("cross", "self"))
                padding[place.part] = sibling if sibling is not None and sibling.shape == shape else None
            elif isinstance(mask, Tensor) and mask.shape == shape and not mask.bool().all() and "decoder" not in place.part:
                padding[place.part] = ~mask.bool().cpu()
        return padding


def _gathered(notes: Sequence[tuple[str, str]]) -> list[str]:
    """Each note once, with the modules that it is about."""
    modules: dict[str, list[str]] = {}
    for module, note in notes:
        modules.setdefault(note, []).append(module)
    return [f"{name_list(list(dict.fromkeys(names)))}: {note}" for note, names in modules.items()]


def _structure(hf: nn.Module) -> int:
    """Changes when modules are added, taken away or replaced by others of another class."""
    return hash(tuple((name, type(module)) for name, module in hf.named_modules()))


def _segments(hf: nn.Module, segments: Tensor | None, names: tuple[str, ...], inputs: ModelInputs) -> Int[Tensor, "B S"] | None:
    if (segments is None) == ("segment" in names):
        raise ArgumentError(f"segments and the statistic 'segment' must come together, got segments={'given' if segments is not None else None}. Give both.")
    if segments is None:
        return None
    if not isinstance(segments, Tensor) or segments.is_floating_point() or segments.dtype == torch.bool:
        raise ArgumentTypeError(f"segments must be a tensor of ints, got {getattr(segments, 'dtype', type(segments).__name__)}. Number the spans from 0.")
    ids = inputs.kwargs.get("input_ids")
    if inputs.decoder_tokens is not None:
        raise ArgumentError(f"segments must label the only tokens of a model, got {type(hf).__name__} with an encoder and a decoder. Leave them out.")
    if ids is None or segments.shape != ids.shape:
        raise ArgumentError(f"segments must have one label a token, {None if ids is None else list(ids.shape)}, got {list(segments.shape)}. Reshape them.")
    return segments.long()

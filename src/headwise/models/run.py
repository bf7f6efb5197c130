"""A run: statistics, weights and writes of every attention head on one input."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

import torch

from headwise.attention.call import MapRegion
from headwise.attention.weights import pooled_weights
from headwise.axes import Float, Tensor
from headwise.catalog import late
from headwise.deprecation import warn
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError, WritesRefused
from headwise.models.capture.forward_pass import ForwardPass, output_tensors
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.runs.activation_store import ActivationStore, StoredCall, stored_call
from headwise.models.runs.head_writes import write_measures
from headwise.models.runs.map_tiles import tile_area
from headwise.models.runs.places import Place
from headwise.models.runs.run_dataset import part_dataset
from headwise.models.runs.run_metadata import RunMetadata
from headwise.models.runs.slicing import one_head

if TYPE_CHECKING:
    import xarray

    from headwise.models.model import Model
    from headwise.models.verification.proof import Proof


class Run:
    """One pass over one input: statistics of every head; weights, maps, writes and proof on demand.

    What did not fit into the memory budget is recomputed by running the model again; that gives the same numbers, or else an error.
    """

    def __init__(self, metadata: RunMetadata, store: ActivationStore | None, forward_pass: ForwardPass | None, outputs: Mapping[str, Tensor] | None) -> None:
        # A run from disk has neither store nor session: it overrides what asks them.
        self._metadata, self._store, self._forward_pass, self._outputs = metadata, store, forward_pass, outputs
        self._writes: dict[str, Sequence[Mapping[str, Tensor]]] = {}
        self._lock, self._proving = RLock(), RLock()
        self.model: Model | None = None  # whose run it is; `Model.run` sets it

    @property
    def tokens(self) -> list[list[str]]:
        """The tokens of the input, by batch row."""
        return [list(row) for row in self._metadata.tokens]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader of the numbers should know."""
        return self._metadata.notes

    @property
    def places(self) -> tuple[Place, ...]:
        """The place of each attention call of the pass: its part, layer, heads, queries and keys."""
        return self._metadata.places

    @property
    def forward_pass(self) -> ForwardPass:
        """The model and its input, so that the pass can be run again.

        Raises:
            ModelError: the run was read from disk, without its model.
        """
        if self._forward_pass is None:
            raise ModelError("This run was loaded without its model. Open the model and run the text again.")
        return self._forward_pass

    def stored_call(self, layer: int, part: str | None = None) -> StoredCall:
        """An attention call as it was: query, key, log-sum-exp of each row and the call itself; recomputed where it was dropped.

        Args:
            layer: the attention call, counted within the part.
        """
        return self._stored_call(self._place(layer, 0, 0, part).index)

    def kept(self, layer: int, part: str | None = None) -> StoredCall:
        """Deprecated: `stored_call`."""
        warn("Run.kept", "Run.stored_call")
        return self.stored_call(layer, part)

    @property
    def session(self) -> ForwardPass:
        """Deprecated: `forward_pass`."""
        warn("Run.session", "Run.forward_pass")
        return self.forward_pass

    @property
    def bytes(self) -> int:
        """Memory that its tensors take, in bytes."""
        stored = 0 if self._store is None else self._store.bytes
        return stored + sum(x.numel() * x.element_size() for x in (self._outputs or {}).values())

    def with_note(self, note: str) -> "Run":
        """The same run with one note more."""
        other = Run(replace(self._metadata, notes=(*self._metadata.notes, note)), self._store, self._forward_pass, self._outputs)
        other.model = self.model
        return other

    @cached_property
    def parts(self) -> "dict[str, xarray.Dataset]":
        """The statistics of each part, in the order of the pass."""
        found: dict[str, list[Place]] = {}
        for place in self._metadata.places:
            found.setdefault(place.part, []).append(place)
        return {part: self._labelled(part, [self._metadata.numbers[place.index].statistics for place in places]) for part, places in found.items()}

    @property
    def statistics(self) -> "xarray.Dataset":
        """The statistics of the only part.

        Raises:
            ArgumentError: there are several parts.
        """
        return self.parts[self._part(None)]

    def statistics_of(self, part: str) -> "xarray.Dataset":
        """The statistics of one part of several."""
        return self.parts[self._part(part)]

    @property
    def writes(self) -> "xarray.Dataset":
        """What each head adds through W_O, in the only part: norm, share and cosine; see `headwise.models.runs.head_writes.write_measures`.

        Raises:
            WritesRefused: heads cannot be separated between attention and W_O; the message names the module.
            ArgumentError: there are several parts.
        """
        return self.writes_of(self._part(None))

    def writes_of(self, part: str) -> "xarray.Dataset":
        """What each head of one part adds through W_O."""
        part = self._part(part)
        with self._lock:
            if part not in self._writes:
                self._writes[part] = self._written(part)
            return self._labelled(part, self._writes[part])

    def weights(
        self, layer: int, head: int, queries: slice = slice(None), keys: slice = slice(None), batch: int = 0, part: str | None = None
    ) -> Float[Tensor, "t s"]:
        """The exact weights of a rectangle of one head's map; NaN in the rows of padding queries.

        Args:
            layer: the attention call, counted within the part.
            queries: rows, without a step.
            keys: columns, without a step.

        Raises:
            ArgumentError: no such layer, head, batch row or part.
        """
        place = self._place(layer, head, batch, part)
        rows, columns = _range("queries", queries, place.queries), _range("keys", keys, place.keys)
        found = self._pooled(place, head, batch, MapRegion(rows, columns))
        padding = self._metadata.padding[place.part]
        return found if padding is None else found.masked_fill(padding[batch, rows, None], torch.nan)

    def tile(
        self, layer: int, head: int, level: int, column: int, row: int, pool: str = "max", batch: int = 0, part: str | None = None
    ) -> Float[Tensor, "h w"]:
        """256 x 256 pixels of one head's map (fewer at its edges); rows of padding queries are 0.

        Args:
            level: as OpenSeadragon counts: at ceil(log2(max(T, S))) a pixel is a weight, at each level below it is twice as wide.
            column: of tiles, from the left.
            row: of tiles, from the top.
            pool: "max" or "mean" of the weights under a pixel.
        """
        place = self._place(layer, head, batch, part)
        padding = self._metadata.padding[place.part]
        padding = None if padding is None else padding[batch : batch + 1]
        return self._pooled(place, head, batch, replace(tile_area(place.queries, place.keys, level, column, row, pool), padding=padding))

    @property
    def outputs(self) -> dict[str, Tensor]:
        """The tensors that the model returned: logits or last_hidden_state, and the like."""
        with self._lock:
            if self._outputs is None:
                outputs = output_tensors(self._forward_pass.rerun(lambda record: None))
                return dict(outputs)
            return dict(self._outputs)

    @cached_property
    def proof(self) -> "Proof":
        """Whether the numbers are right: verdicts with residuals beside what rounding allows. Takes about four passes, once."""
        from headwise.models.verification.proof import prove

        outputs = self.outputs
        with self._proving:  # not the lock of the store: maps can be looked at meanwhile
            known = self.__dict__.get("proof")
            return prove(self._forward_pass, self._metadata, outputs) if known is None else known  # pyright: ignore[reportArgumentType]

    def save(self, path: str | Path) -> None:
        """Write the run to a new directory: safetensors and JSON; `load_run` reads it without the model.

        Raises:
            ArgumentError: there is something else at that path.
        """
        late("headwise.models.offline.run_files:save_run")(self, Path(path))

    def show(self) -> object:
        """Show the page of this run in a notebook; returns the widget.

        Raises:
            MissingPackage: anywidget is not installed.
            ModelError: the run has no model.
        """
        return late("headwise.server.embedded.notebook_widget:run_widget")(self)

    def save_html(self, path: str | Path) -> None:
        """Write the page of this run as one file that needs nothing else: every statistic, small maps, the proof. For one text.

        Raises:
            ModelError: the run has no model, or the file cannot be written.
        """
        late("headwise.server.embedded.saved_page:save_html")(self, Path(path))

    def _written(self, part: str) -> Sequence[Mapping[str, Tensor]]:
        """Norm, share and cosine of each call of a part."""
        places = [place for place in self._metadata.places if place.part == part]
        sites = {place.index: self._metadata.layout.sites[place.index] for place in places}
        for place in places:
            if sites[place.index].output is None:
                raise WritesRefused(f"writes of {place.module} cannot be attributed to heads: {sites[place.index].refusal}.")
        found: dict[int, Mapping[str, Tensor]] = {}

        def measure(index: int, call: StoredCall) -> None:
            if call.z is not None:
                found[index] = write_measures(call.z, self._forward_pass.module(sites[index].output.module))

        self._each([place.index for place in places], measure)
        return [found[place.index] for place in places]

    def _labelled(self, part: str, numbers: Sequence[Mapping[str, Tensor]]) -> "xarray.Dataset":
        metadata = self._metadata
        places = [place for place in metadata.places if place.part == part]
        decoder = metadata.decoder_tokens or metadata.tokens
        queries, keys = (decoder, metadata.tokens) if "decoder" in part else (metadata.tokens, metadata.tokens)
        return part_dataset(part, places, numbers, queries, keys if places[0].cross else queries, metadata.padding[part])

    def _pooled(self, place: Place, head: int, batch: int, area: MapRegion) -> Float[Tensor, "h w"]:
        query, key, lse, call = one_head(self._stored_call(place.index), batch, head)
        return pooled_weights(query, key, lse, call, area)[0, 0].cpu()

    def _stored_call(self, index: int) -> StoredCall:
        found: dict[int, StoredCall] = {}
        self._each([index], found.__setitem__)
        return found[index]

    def _each(self, indices: Sequence[int], use: Callable[[int, StoredCall], None]) -> None:
        """Give each call to `use`; those that were dropped are recomputed, all in one pass."""
        with self._lock:
            missing = set()
            for index in indices:
                call = self._store.get(index)
                if call is None:
                    missing.add(index)
                else:
                    use(index, call)

            def store(record: AttentionRecord) -> None:
                call = stored_call(record)
                self._metadata.check_same(record.index, call.lse)
                self._store.put(record.index, call)
                use(record.index, call)

            if missing:
                self._forward_pass.rerun(store, missing)

    def _part(self, part: str | None) -> str:
        parts = list(dict.fromkeys(place.part for place in self._metadata.places))
        if part is None and len(parts) == 1:
            return parts[0]
        if part is None:
            raise ArgumentError(f"part must be given where there are several, got None. Choose one of {parts}: run.parts[...], writes_of(...) or part=.")
        if part not in parts:
            raise ArgumentError(f"part must be one of {parts}, got {part!r}. Correct the name.")
        return part

    def _place(self, layer: int, head: int, batch: int, part: str | None) -> Place:
        name = self._part(part)
        places = [place for place in self._metadata.places if place.part == name]
        _number("layer", layer, len(places))
        _number("head", head, places[layer].heads)
        _number("batch", batch, places[layer].batch)
        return places[layer]


def _number(name: str, number: int, count: int) -> None:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise ArgumentTypeError(f"{name} must be an int, got {type(number).__name__}.")
    if not 0 <= number < count:
        raise ArgumentError(f"{name} must be in 0..{count - 1}, got {number}. Choose one of these.")


def _range(name: str, part: slice, length: int) -> slice:
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise ArgumentTypeError(f"{name} must be a slice without a step, got {part!r}. Pass slice(0, 100), say.")
    start, stop, _ = part.indices(length)
    return slice(start, max(start, stop))

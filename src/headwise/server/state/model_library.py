"""The models that the page can show: those given at start and those in the folder of models. They are opened one after the other, in a thread."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import HeadwiseError, RequestError
from headwise.server.state import first_view_cache
from headwise.server.state.first_view_cache import FirstView
from headwise.server.work import transformers_import

if TYPE_CHECKING:
    from torch import nn

    from headwise.models.model import Model


@dataclass(eq=False)
class ModelEntry:
    """One model of the library.

    Attributes:
        source: what `open_model` takes.
        state: waiting, loading, ready or failed.
        reason: why it failed.
        base: the id of the model whose edits were saved as this one.
        first_view: stored at an earlier start and still valid: shown while the model is being opened.
        opening: finished when the model is open, or cannot be opened.
        first_view_stored: its first view since this start has been stored for the next.
    """

    id: str
    name: str
    source: "str | Model"
    state: str = "waiting"
    reason: str | None = None
    model: "Model | None" = None
    base: str | None = None
    first_view: FirstView | None = None
    opening: "Future[None] | None" = None
    first_view_stored: bool = False


class ModelLibrary:
    """Every model by its id, which is all that a browser can name.

    Args:
        given: names of models, or opened models.
        folder: its subfolders that hold a config.json are models too, opened on request.
        on_change: called when a model's state changes, from any thread.
    """

    def __init__(self, given: "Iterable[str | Model]", folder: Path | None, on_change: Callable[[ModelEntry], None]) -> None:
        self.on_change = on_change
        self.by_id: dict[str, ModelEntry] = {}
        self.given: list[str] = []
        self.lock = threading.Lock()
        self.thread = ThreadPoolExecutor(1, "headwise-opening")
        for one in given:
            self.given.append(self._add(one).id)
        for path in sorted(folder.iterdir()) if folder is not None else ():
            if (path / "config.json").is_file():
                self._add(str(path), path.name)

    def start(self) -> None:
        """Begin to open the given models, in their order."""
        for id in self.given:
            if self.by_id[id].state != "ready":
                self.open(id)

    def open(self, id: str) -> ModelEntry:
        """Begin to open a model, unless it is open or being opened."""
        found = self.get(id)
        with self.lock:
            begin = found.state in ("waiting", "failed")
            if begin:
                found.state, found.reason = "loading", None
        if begin:
            found.first_view = first_view_cache.load(found.source) if isinstance(found.source, str) else None
            self.on_change(found)
            found.opening = self.thread.submit(self._open, found)
        return found

    def get(self, id: str) -> ModelEntry:
        """The model of this id, in whatever state.

        Raises:
            RequestError: there is none.
        """
        if id not in self.by_id:
            raise RequestError(404, "NotFound", f"model must be one of {', '.join(self.by_id) or 'none'}, got {id[:80]!r}. Choose one of them.")
        return self.by_id[id]

    def named(self, name: str) -> str:
        """The id of the model of this name."""
        return next(found.id for found in self.by_id.values() if found.name == name)

    def ready(self, id: str) -> "Model":
        """The model, opened.

        Raises:
            RequestError: it is not open yet, or cannot be opened.
        """
        found = self.get(id)
        if found.state == "failed":
            raise RequestError(503, "ModelFailed", found.reason or "The model could not be opened.")
        if found.model is None:
            self.open(id)
            raise RequestError(503, "ModelLoading", f"{found.name} is not open yet: it is still {found.state}. Wait for it.")
        return found.model

    async def opened(self, id: str) -> "Model":
        """The model; waits for it where the page shows its first view meanwhile.

        Raises:
            RequestError: it cannot be opened, or is not open yet and nothing of it is shown.
        """
        found = self.get(id)
        if found.model is None and found.first_view is not None and found.opening is not None:
            await asyncio.shield(asyncio.wrap_future(found.opening))
        return self.ready(id)

    def entries(self) -> list[dict[str, Any]]:
        """What the page gets of each model."""
        return [entry(found) for found in self.by_id.values()]

    def add(self, path: Path, base: ModelEntry) -> ModelEntry:
        """Add a checkpoint that was just saved from edits of `base`."""
        found = self._add(str(path), path.name)
        found.base = base.id
        self.on_change(found)
        return found

    def _add(self, source: "str | Model", name: str | None = None) -> ModelEntry:
        opened = None if isinstance(source, str) else source
        name = name or (source if isinstance(source, str) else source.name)
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name.removeprefix("demo:").rstrip("/").rpartition("/")[2]).strip("-.") or "model"
        id, number = stem, 2
        while id in self.by_id:
            id, number = f"{stem}-{number}", number + 1
        self.by_id[id] = ModelEntry(id, name, source, "waiting" if opened is None else "ready", None, opened)
        return self.by_id[id]

    def _open(self, found: ModelEntry) -> None:
        transformers_import.import_transformers()
        from headwise.models.loading.open_model import open_model

        try:
            found.model = open_model(found.source) if isinstance(found.source, str) else found.source
            found.state = "ready"
        except HeadwiseError as error:
            found.state, found.reason = "failed", str(error)
        except Exception as error:  # noqa: BLE001 - whatever a model's own code does, the server stays up and reports it
            found.state, found.reason = "failed", f"{type(error).__name__}: {error}"
        self.on_change(found)


def entry(found: ModelEntry) -> dict[str, Any]:
    """What the page gets of a model."""
    known = {"id": found.id, "name": found.name, "state": found.state, "reason": found.reason, "base": found.base}
    if found.model is None:
        return known if found.first_view is None or found.state != "loading" else {**known, **found.first_view.model, "state": "ready"}
    return {**known, **model_facts(found.model)}


def model_facts(model: "Model") -> Mapping[str, Any]:
    """Sizes of a model, as far as its configuration has them."""
    from headwise.models.inputs.encoding import max_positions
    from headwise.models.model_info import is_encoder_decoder, text_config
    from headwise.server.payloads.model_output import output_kind

    config, hf = text_config(model.hf), model.hf
    heads = _integer(config, "num_attention_heads", "num_heads", "n_head")
    width = _integer(config, "hidden_size", "d_model", "n_embd")
    kind = output_kind(hf)
    return {
        "class": type(hf).__name__,
        "kind": "encoder-decoder" if is_encoder_decoder(hf) else "decoder" if kind == "next_token" else "encoder" if config is not None else "other",
        "layers": _integer(config, "num_hidden_layers", "num_layers", "n_layer"),
        "heads": heads,
        "key_heads": _integer(config, "num_key_value_heads") or heads,
        "width": width,
        "head_width": _integer(config, "head_dim", "d_kv") or (width // heads if width and heads else None),
        "vocabulary": _integer(config, "vocab_size"),
        "positions": max_positions(hf),
        "parameters": sum(x.numel() for x in hf.parameters()),
        "tensors": count_tensors(hf),
        "dtype": next((str(x.dtype).removeprefix("torch.") for x in hf.parameters()), None),
        "note": model.note,
        "output": kind,
    }


def count_tensors(hf: "nn.Module") -> int:
    """The number of tensors of a model; one that has two names, as tied embeddings do, counts once."""
    return len({(x.data_ptr() or name, x.shape, x.stride()) for name, x in hf.state_dict().items()})


def _integer(config: Any, *names: str) -> int | None:
    found = (getattr(config, name, None) for name in names)
    return next((x for x in found if isinstance(x, int) and not isinstance(x, bool)), None)

"""The models that the page may show: those given at start, and those in the folder of models. Opened one after the other, in a thread."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import HeadwiseError
from headwise.server.responses import Denied
from headwise.server.state.first_view_cache import Seen, find
from headwise.server.work import transformers_import as imports

if TYPE_CHECKING:
    from torch import nn

    from headwise.models.model import Model


@dataclass(eq=False)
class Shelved:
    """One model.

    Attributes:
        source: what `open_model` takes.
        state: waiting, loading, ready or failed.
        reason: why it failed.
        base: the id of the model whose edits were saved as this one.
        seen: what was seen of it at an earlier start, and still holds: shown while it is being opened.
        opening: ends when it is open, or cannot be.
        kept: what was seen of it since the start is kept for the next.
    """

    id: str
    name: str
    source: Any
    state: str = "waiting"
    reason: str | None = None
    model: "Model | None" = None
    base: str | None = None
    seen: Seen | None = None
    opening: "Future | None" = None
    kept: bool = False


class Library:
    """Every model by its id, which is all that a browser can name.

    Args:
        given: names of models, or opened models.
        folder: its subfolders that hold a config.json are models too, opened when asked for.
        told: called when a model's state changes, from any thread.
    """

    def __init__(self, given: "Iterable[str | Model]", folder: Path | None, told: Callable[[Shelved], None]) -> None:
        self.told = told
        self.shelf: dict[str, Shelved] = {}
        self.given: list[str] = []
        self.lock = threading.Lock()
        self.thread = ThreadPoolExecutor(1, "headwise-opening")
        for one in given:
            self.given.append(self._add(one).id)
        for path in sorted(folder.iterdir()) if folder is not None else ():
            if (path / "config.json").is_file():
                self._add(str(path), path.name)

    def start(self) -> None:
        """Begin to open what was given, in its order."""
        for id in self.given:
            if self.shelf[id].state != "ready":
                self.open(id)

    def open(self, id: str) -> Shelved:
        """Begin to open one, unless it is open or being opened."""
        found = self.get(id)
        with self.lock:
            begin = found.state in ("waiting", "failed")
            if begin:
                found.state, found.reason = "loading", None
        if begin:
            found.seen = find(found.source) if isinstance(found.source, str) else None
            self.told(found)
            found.opening = self.thread.submit(self._open, found)
        return found

    def get(self, id: str) -> Shelved:
        """The model of this id, in whatever state.

        Raises:
            Denied: there is none.
        """
        if id not in self.shelf:
            raise Denied(404, "NotFound", f"model must be one of {', '.join(self.shelf) or 'none'}, got {id[:80]!r}. Choose one of them.")
        return self.shelf[id]

    def named(self, name: str) -> str:
        """The id of the model of this name."""
        return next(found.id for found in self.shelf.values() if found.name == name)

    def ready(self, id: str) -> "Model":
        """The model, opened.

        Raises:
            Denied: it is not yet, or cannot be.
        """
        found = self.get(id)
        if found.state == "failed":
            raise Denied(503, "ModelFailed", found.reason or "the model could not be opened.")
        if found.model is None:
            self.open(id)
            raise Denied(503, "ModelLoading", f"model must be open, got {found.name} which is still {found.state}. Wait for it.")
        return found.model

    async def opened(self, id: str) -> "Model":
        """The model, waited for where the page shows what was seen of it earlier.

        Raises:
            Denied: it cannot be opened, or is not yet and nothing of it is shown.
        """
        found = self.get(id)
        if found.model is None and found.seen is not None and found.opening is not None:
            await asyncio.shield(asyncio.wrap_future(found.opening))
        return self.ready(id)

    def entries(self) -> list[dict[str, Any]]:
        """What the page is told of each."""
        return [entry(found) for found in self.shelf.values()]

    def add(self, path: Path, base: Shelved) -> Shelved:
        """A checkpoint that was just saved of edits of `base`."""
        found = self._add(str(path), path.name)
        found.base = base.id
        self.told(found)
        return found

    def _add(self, one: "str | Model", name: str | None = None) -> Shelved:
        opened = None if isinstance(one, str) else one
        name = name or (one if isinstance(one, str) else one.name)
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name.removeprefix("demo:").rstrip("/").rpartition("/")[2]).strip("-.") or "model"
        id, number = stem, 2
        while id in self.shelf:
            id, number = f"{stem}-{number}", number + 1
        self.shelf[id] = Shelved(id, name, one, "waiting" if opened is None else "ready", None, opened)
        return self.shelf[id]

    def _open(self, found: Shelved) -> None:
        imports.transformers()
        from headwise.models.loading.open_model import open_model

        try:
            found.model = open_model(found.source)
            found.state = "ready"
        except HeadwiseError as error:
            found.state, found.reason = "failed", str(error)
        except Exception as error:  # noqa: BLE001 - whatever a model's own code does, the server stays up and says it
            found.state, found.reason = "failed", f"{type(error).__name__}: {error}"
        self.told(found)


def entry(found: Shelved) -> dict[str, Any]:
    """What the page is told of a model."""
    told = {"id": found.id, "name": found.name, "state": found.state, "reason": found.reason, "base": found.base}
    if found.model is None:
        return told if found.seen is None or found.state != "loading" else {**told, **found.seen.model, "state": "ready"}
    return {**told, **facts(found.model)}


def facts(model: "Model") -> Mapping[str, Any]:
    """Sizes, as far as the model's configuration says them."""
    from headwise.models.inputs.encoding import max_positions
    from headwise.models.model_info import is_encoder_decoder, text_config
    from headwise.server.payloads.model_output import output_kind

    config, hf = text_config(model.hf), model.hf
    heads = _number(config, "num_attention_heads", "num_heads", "n_head")
    width = _number(config, "hidden_size", "d_model", "n_embd")
    kind = output_kind(hf)
    return {
        "class": type(hf).__name__,
        "kind": "encoder-decoder" if is_encoder_decoder(hf) else "decoder" if kind == "next_token" else "encoder" if config is not None else "other",
        "layers": _number(config, "num_hidden_layers", "num_layers", "n_layer"),
        "heads": heads,
        "key_heads": _number(config, "num_key_value_heads") or heads,
        "width": width,
        "head_width": _number(config, "head_dim", "d_kv") or (width // heads if width and heads else None),
        "vocabulary": _number(config, "vocab_size"),
        "positions": max_positions(hf),
        "parameters": sum(x.numel() for x in hf.parameters()),
        "tensors": tensors_in(hf),
        "dtype": next((str(x.dtype).removeprefix("torch.") for x in hf.parameters()), None),
        "note": model.note,
        "output": kind,
    }


def tensors_in(hf: "nn.Module") -> int:
    """How many tensors a model has; one that goes by two names, as tied embeddings do, counts once."""
    return len({(x.data_ptr() or name, x.shape, x.stride()) for name, x in hf.state_dict().items()})


def _number(config: Any, *names: str) -> int | None:
    found = (getattr(config, name, None) for name in names)
    return next((x for x in found if isinstance(x, int) and not isinstance(x, bool)), None)

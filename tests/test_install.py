"""Installing headwise where nothing can be compiled: it goes on without the kernel, and says so."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "NOTICE")
USED = """
import torch, headwise as hw
from headwise.attention.kernels.native.library import compiled
assert compiled() is None, compiled()
x = torch.randn(1, 2, 5, 4)
print(hw.__file__)
print(hw.attend(x, x, x, causal=True, statistics="all").output.shape)
"""
DOCTOR = """
from headwise.cli.app import main
sys.argv = ["headwise", "doctor"]
main()
"""

pytestmark = pytest.mark.slow


def built(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A wheel of a copy of the sources, by a build whose compiler is `false`."""
    source = tmp_path / "source"
    source.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    tools = Path(sys.executable).parent
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(tmp_path / "wheels"), "."]
    without = {name: value for name, value in os.environ.items() if name not in ("HEADWISE_REQUIRE_NATIVE", "CXX", "CC")}
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=source, env={**without, "PATH": path, "CXX": "/bin/false", "CC": "/bin/false", **environment}, capture_output=True, text=True
    )


def run_in(target: Path, code: str) -> str:
    """What code prints that finds headwise in this folder: without `site`, whose .pth files would bring the checkout."""
    start = f"import sys; sys.path[:] = [{str(target)!r}, *sys.path, {sysconfig.get_path('purelib')!r}]\n"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", start + code], capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


def test_without_a_compiler_the_package_works_and_says_so(tmp_path):
    made = built(tmp_path)
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = (tmp_path / "wheels").glob("headwise-*.whl")
    target = tmp_path / "installed"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)], check=True)
    assert (target / "headwise/__init__.pyi").read_text() == (ROOT / "src/headwise/__init__.pyi").read_text()  # read at import, and by type checkers
    assert (target / "headwise/py.typed").is_file()
    used = run_in(target, USED)
    assert used.splitlines() == [str(target / "headwise/__init__.py"), "torch.Size([1, 2, 5, 4])"]
    assert "Install GCC or Clang, then headwise again" in " ".join(run_in(target, DOCTOR).split())


def test_where_the_kernel_is_required_the_build_fails(tmp_path):
    made = built(tmp_path, HEADWISE_REQUIRE_NATIVE="1")
    assert made.returncode != 0
    assert "CMake configuration failed" in made.stdout + made.stderr

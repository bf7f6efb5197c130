"""The structure of `src/`: small folders, no circles, one meaning a name, the field's words, and the ways that ARCHITECTURE.md lists."""

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headwise"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if "node_modules" not in path.parts)
FOLDERS = sorted({path.parent for path in MODULES})
MOST = 16


@cache
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("headwise", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(SOURCE.parent)))
def test_a_folder_is_small_enough_to_be_read_at_a_glance(folder):
    modules = [path.name for path in folder.glob("*.py")]
    assert len(modules) <= MOST, f"{len(modules)} modules"


def test_no_module_imports_itself_by_way_of_others():
    graph = {module: imports().find_modules_directly_imported_by(module) - {module} for module in imports().modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_class_name_is_defined_twice():
    places = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


# Names that this code once had, and that no paper knows. Their replacements are those of the field: a partial forward, an activation cache, a mutation.
PRIVATE_NAMES = set(
    """
    Again Tape Passage Opener Cast Scene playbill Hand Watch Heard Wish Survey Lookout Asked HARMLESS words_changed calls_changed apartness Strand Facts Learned
    Rules Given Lie liar Law CallWay LayerWay Walk Desk Hub Keep print_of overheard ledger Ledger Told comparing_sides
    """.split()  # noqa: SIM905 (a list of words reads as one)
)


def names_of(path: Path) -> set[str]:
    """The file's stem, and every name that it defines: classes, functions, parameters, variables, attributes."""
    found = {path.stem}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
    return found


@pytest.mark.parametrize("folder", ["src", "tests", "docs", "benchmarks"])
def test_no_private_name_is_left(folder):
    files = [path for path in (ROOT / folder).rglob("*.py") if "node_modules" not in path.parts]
    left = {str(path.relative_to(ROOT)): sorted(names_of(path) & PRIVATE_NAMES) for path in files}
    assert {path: names for path, names in left.items() if names} == {}


def test_every_docstring_can_be_compiled_and_sent():
    """A docstring with a lone surrogate cannot be encoded: its doctest cannot be compiled, and pytest-xdist cannot send its report."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                (ast.get_docstring(node) or "").encode()


def steps_of_ways() -> dict[str, list[str]]:
    """The numbered steps of each way in ARCHITECTURE.md, and the files that they name."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    ways = re.findall(r"^### (The way of .*?)\n(.*?)(?=^##|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    return {title: re.findall(r"`([\w/]+\.py)`", "\n".join(re.findall(r"^\d+\. .*(?:\n   .*)*", body, flags=re.MULTILINE))) for title, body in ways}


def test_architecture_lists_three_ways_of_at_most_twelve_files():
    ways = steps_of_ways()
    assert len(ways) == 3
    for title, files in ways.items():
        assert 3 <= len(dict.fromkeys(files)) <= 12, (title, files)


@pytest.mark.parametrize("file", sorted({file for files in steps_of_ways().values() for file in files}))
def test_what_the_ways_name_can_be_imported(file):
    import_module("headwise." + file.removesuffix(".py").replace("/", "."))

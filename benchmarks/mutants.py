"""How many planted faults the tests find: `python -m benchmarks.mutants --json FILE`.

Mutants are drawn with a fixed seed over five rooms, by cosmic-ray's operators (an operator replaced, a number moved, a condition turned round, ...), one
change of one place each. A mutant is killed when a test that passes on the sources fails on it, or when it does not end in time.

Which tests reach a line is read from a coverage run with one context a test, so that a mutant meets only tests that can see it, the fastest first:

    .venv/bin/python -m pytest -q -n auto --cov=headwise --cov-branch --cov-context=test            the tests of `make test`
    .venv/bin/python -m pytest -q -n auto --cov=headwise --cov-branch --cov-context=test -m ""      those of `make test-all`

Each mutant is made in a copy of the tree, never in the checkout. What is done is kept in the JSON file: a run that was stopped goes on.
"""

import argparse
import ast
import io
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
ROOMS = ("attention", "models", "interventions", "analysis", "conformance")
# Operators whose change is nearly always the same program, or no program: annotations are written with `|`, and keyword-only stars are no products.
LEFT_OUT = ("core/ReplaceBinaryOperator_BitOr", "core/RemoveDecorator", "core/VariableReplacer", "core/VariableInserter")


@dataclass(frozen=True)
class Mutant:
    """One change of one place.

    Attributes:
        file: below `src/headwise`.
        operator: of cosmic-ray.
        occurrence: which of the places in the file that the operator could change.
        line: of the change, from 1.
        before, after: the line.
    """

    file: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.operator}:{self.occurrence}"


def drawn(count: int, seed: int) -> list[Mutant]:
    """So many mutants, each on a line of its own: files by their number of places, places alike."""
    places = [(file, operator, occurrence) for file in sources() for operator, occurrence in places_of(file)]
    random.Random(seed).shuffle(places)
    mutants: dict[tuple[str, int], Mutant] = {}
    for file, operator, occurrence in places:
        if len(mutants) == count:
            break
        mutant = mutant_of(file, operator, occurrence)
        if mutant is not None:
            mutants.setdefault((mutant.file, mutant.line), mutant)
    return list(mutants.values())


def sources() -> list[Path]:
    """The files of the five rooms, in a fixed order."""
    return sorted(path for room in ROOMS for path in (ROOT / "src" / "headwise" / room).rglob("*.py") if path.name != "__init__.py")


def places_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every operator that can change something in the file, and which of its places."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast_from_path(path)))
    for name in sorted(operator_names()):
        if not name.startswith(LEFT_OUT):
            operator = get_operator(name)()
            count = sum(1 for node in nodes for _ in operator.mutation_positions(node))
            yield from ((name, occurrence) for occurrence in range(count))


def mutant_of(path: Path, operator: str, occurrence: int) -> Mutant | None:
    """The mutant, unless it does not parse, or changes nothing but an annotation or a docstring."""
    before, after = path.read_text(encoding="utf-8"), mutated(path, operator, occurrence)
    if after is None or stripped(before) is None or stripped(after) in (None, stripped(before)):
        return None
    old, new = before.splitlines(), after.splitlines()
    line = next((number for number, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), min(len(old), len(new)) - 1)
    return Mutant(str(path.relative_to(ROOT / "src" / "headwise")), operator, occurrence, line + 1, old[line].strip(), new[line].strip())


def mutated(path: Path, operator: str, occurrence: int) -> str | None:
    """The source with one place changed."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    return mutate_code(path.read_text(encoding="utf-8"), get_operator(operator)(), occurrence)


def stripped(source: str) -> str | None:
    """The program without annotations and docstrings; None where it does not parse."""
    try:
        tree = ast.parse(source)
        tokenize.generate_tokens(io.StringIO(source).readline)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            for argument in [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]:
                argument.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body[0] = ast.Pass()
    return ast.dump(tree)


def reaching(data: Path, mutant: Mutant) -> list[str]:
    """The tests that ran the mutant's line, as a coverage run recorded them."""
    database = sqlite3.connect(f"file:{data}?mode=ro", uri=True)
    query = (
        "select distinct context.context from context join arc on arc.context_id = context.id join file on file.id = arc.file_id "
        "where file.path like ? and (arc.fromno = ? or arc.tono = ?)"
    )
    found = database.execute(query, (f"%/headwise/{mutant.file}", mutant.line, mutant.line)).fetchall()
    database.close()
    return sorted({context.partition("|")[0] for (context,) in found if "::" in context})


def judged(mutant: Mutant, tests: list[str], times: dict[str, float], most_seconds: float) -> str:
    """What became of a mutant: "killed", "survived", or "unreached" where no test runs its line."""
    if not tests:
        return "unreached"
    with TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / "headwise-tree"
        leave = shutil.ignore_patterns(".git", ".venv", "build", "node_modules", "__pycache__", ".*_cache", ".hypothesis", ".coverage*")
        shutil.copytree(ROOT, copy, ignore=leave, symlinks=True)
        target = copy / "src" / "headwise" / mutant.file
        target.write_text(mutated(ROOT / "src" / "headwise" / mutant.file, mutant.operator, mutant.occurrence), encoding="utf-8")
        paths = f"sys.path[:0] = [{str(copy)!r}, {str(copy / 'src')!r}]"
        start = f"import sys; {paths}; import pytest; raise SystemExit(pytest.main(sys.argv[1:]))"
        end = time.monotonic() + most_seconds
        for batch in batches(tests, times):
            left = end - time.monotonic()
            if left <= 0:
                return "survived"
            command = [sys.executable, "-c", start, "-x", "-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:randomly", *batch]
            try:
                done = subprocess.run(
                    command, cwd=copy, capture_output=True, text=True, timeout=left + 60, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
                )
            except subprocess.TimeoutExpired:
                return "killed"
            if done.returncode not in (0, 5):
                return "killed"
    return "survived"


def batches(tests: list[str], times: dict[str, float]) -> Iterator[list[str]]:
    """The fastest first: most mutants fall at once. Batches grow, since each start of Python costs seconds."""
    ordered, size = sorted(tests, key=lambda test: times.get(test, 1.0)), 8
    while ordered:
        yield ordered[:size]
        ordered, size = ordered[size:], size * 4


def main(arguments: list[str] | None = None) -> None:
    """Draw, judge, and write what came of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, help="what is done; a run that was stopped goes on from it")
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage", help="data of a coverage run with one context a test")
    parser.add_argument("--times", type=Path, help="seconds by test, as HEADWISE_TEST_TIMES writes them")
    parser.add_argument("--count", type=int, default=200, help="mutants")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=300, help="of tests for one mutant; one that outlives them has survived")
    options = parser.parse_args(arguments)
    times = json.loads(options.times.read_text(encoding="utf-8")) if options.times else {}
    done = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
    mutants = drawn(options.count, options.seed)
    for number, mutant in enumerate(mutants, 1):
        if mutant.name not in done:
            fate = judged(mutant, reaching(options.coverage, mutant), times, options.seconds)
            done[mutant.name] = {**asdict(mutant), "fate": fate}
            options.json.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
        print(f"{number}/{len(mutants)} {done[mutant.name]['fate']:9} {mutant.file}:{mutant.line}  {mutant.before}  ->  {mutant.after}", flush=True)
    fates = Counter(done[mutant.name]["fate"] for mutant in mutants)
    print(f"killed {fates['killed']} of {len(mutants)}: {fates['killed'] / len(mutants):.1%}")
    print(f"{fates['survived']} survived, {fates['unreached']} are reached by no test")


if __name__ == "__main__":
    main()

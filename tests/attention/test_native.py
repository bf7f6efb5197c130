"""The native kernel beyond what is asked of every kernel: blocks, instruction sets, threads, signals, forks."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from headwise.attention.attend import attend
from headwise.attention.call import Call, Tiled
from headwise.attention.kernels.native import attend_call as native
from headwise.attention.kernels.native.library import compiled, instruction_set, instruction_sets
from headwise.errors import BackendError
from tests.attention.problem import EVERY, Problem, agree, normal
from tests.attention.rounding import allowed
from tests.attention.test_attend_properties import at_the_peaks, same

built = pytest.mark.skipif(compiled() is None, reason="the native kernel is not built here")


@pytest.fixture(params=instruction_sets())
def isa(request, monkeypatch):
    monkeypatch.setenv("HEADWISE_ISA", request.param)
    return request.param


@pytest.fixture
def threads():
    """Sets the number of threads, and puts it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def problem(shape=(2, 2, 3, 131, 563), widths=(17, 20), dtype=torch.float32, **options) -> Problem:
    """Batch, key heads, query heads a key head, queries and keys; lengths that no block divides."""
    b, g, r, t, s = shape
    tensors = [normal(*sizes, seed=seed, dtype=dtype) for seed, sizes in enumerate(((b, g * r, t, widths[0]), (b, g, s, widths[0]), (b, g, s, widths[1])))]
    segments = torch.arange(s)[None].expand(b, s) // 40 % 7 - 1
    return Problem(*tensors, {"segments": segments, **options})


def judge(case: Problem) -> None:
    right, found, fine = case.double().run("reference", EVERY), case.run("native", EVERY), allowed(case)
    same(found, right, fine)
    agree(found.statistics["received"], right.statistics["received"], fine.statistics["received"], "received")
    agree(*at_the_peaks(case, found.statistics["peak"], right.statistics["peak"]), fine.statistics["peak"], "weight at the peak")


def test_it_is_built_where_it_must_be():
    if os.environ.get("HEADWISE_REQUIRE_NATIVE", "") not in ("", "0"):
        assert compiled() is not None


def test_without_a_compiler_it_says_how_to_get_it():
    q = torch.zeros(1, 1, 2, 3)
    with patch.object(native, "compiled", lambda: None):
        refusal = native.refusal(q, q, q, Call(scale=1.0, offset=torch.zeros(1, dtype=torch.int64)), ())
    assert refusal == "the native kernel is not built here. Install GCC or Clang, then headwise again (in a checkout: `make setup`)"


@built
def test_it_refuses_what_it_cannot_do():
    q = torch.zeros(1, 1, 2, 3, device="meta")
    with pytest.raises(BackendError, match="backend 'native' does not support this call: it computes on the CPU, the tensors are on meta"):
        attend(q, q, q, backend="native")
    q = torch.zeros(1, 1, 2, 3)
    assert native.refusal(q, q, q, Call(scale=1.0, offset=torch.zeros(1, dtype=torch.int64)), ("a_new_one",)) == "it does not compute the statistic 'a_new_one'"


@built
def test_an_instruction_set_that_does_not_run_here_is_an_error(monkeypatch):
    monkeypatch.setenv("HEADWISE_ISA", "sparc")
    with pytest.raises(BackendError, match=r"HEADWISE_ISA must be one of .*baseline.* on this machine, got 'sparc'. Unset it for the fastest."):
        instruction_set()


CASES = {
    "causal": {"causal": True},
    "offset a row": {"causal": True, "query_offset": torch.tensor([-30, 300])},
    "window": {"window": (70, 11)},
    "far behind": {"window": (None, -260)},
    "mask": {"mask": normal(2, 6, 131, 563, seed=7) > 0.5},
    "mask of keys": {"mask": normal(2, 1, 1, 563, seed=7) > 0, "causal": True},
    "mask of rows": {"mask": normal(1, 6, 131, 1, seed=7) > 0},
    "blocks": {"mask": (torch.arange(563) // 101 % 2 == 0).expand(1, 1, 131, 563)},
    "columns apart": {"mask": (normal(1, 1, 563, 131, seed=7) > 0.2).mT, "bias": normal(1, 6, 563, 131, seed=8, dtype=torch.float32).mT},
    "bias": {"bias": normal(1, 6, 131, 563, seed=9, dtype=torch.float32), "causal": True},
    "cap and sink": {"softcap": 1.5, "sink": normal(6, seed=3, dtype=torch.float32), "scale": -0.7},
    "rising": {"bias": torch.linspace(0, 80, 563)[None, None, None], "scale": 0.0},
}


@built
@pytest.mark.parametrize("name", CASES)
def test_rows_that_cross_blocks_of_keys(isa, name):
    judge(problem(**CASES[name]))


@built
@pytest.mark.parametrize("widths", [(64, 64), (80, 96), (96, 80), (128, 128), (1, 3), (33, 31), (7, 260)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_every_width_and_type(isa, dtype, widths):
    judge(problem((1, 2, 2, 29, 301), widths, dtype, causal=True))


@built
@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 700), (1, 2, 7, 1, 300), (2, 1, 5, 3, 259), (1, 1, 300, 2, 40), (1, 1, 1, 521, 33)])
def test_every_count_of_rows(isa, shape):
    judge(problem(shape))


@built
def test_a_row_does_not_depend_on_the_rows_beside_it():
    """To the last bit: however rows fall into groups, each is computed in the same order."""
    case = problem(causal=True)
    whole = case.run("native", "all")
    for rows in (slice(0, 1), slice(5, 13), slice(60, 131)):
        part = case.having(query=case.query[:, :, rows], query_offset=563 - 131 + rows.start).run("native", "all")
        assert torch.equal(part.output, whole.output[:, :, rows])
        assert all(torch.equal(part.statistics[name], number[:, :, rows]) for name, number in whole.statistics.items())


@built
def test_the_number_of_threads_changes_no_bit(threads):
    case = problem((2, 2, 3, 517, 563), causal=True)
    runs = []
    for count in (1, 2, 3, 7):
        threads(count)
        runs.append(case.run("native", EVERY))
    for run in runs[1:]:
        assert torch.equal(run.output, runs[0].output)
        assert torch.equal(run.lse, runs[0].lse)
        assert all(torch.equal(run.statistics[name], number) for name, number in runs[0].statistics.items())


class Checkered(Tiled):
    """A mask and, as a bias, numbers that are only ever made tile by tile; remembers the most that was asked for at once."""

    def __init__(self, plane):
        self.plane, self.largest = plane, 0

    def tile(self, rows, keys):
        part = self.plane[:, :, rows, keys]
        self.largest = max(self.largest, part.numel())
        return part


@built
def test_planes_in_tiles_are_never_asked_for_whole():
    case = problem(causal=True, window=(200, None))
    mask, bias = Checkered(normal(1, 6, 131, 563, seed=4) > -0.5), Checkered(normal(2, 1, 131, 563, seed=5, dtype=torch.float32))
    whole = case.having(mask=mask.plane, bias=bias.plane).run("native", EVERY)
    call = Call(scale=17**-0.5, offset=torch.full((2,), 432), causal=True, window=(200, None), mask=mask, bias=bias, segments=case.options["segments"])
    with patch.object(native, "TILED_BYTES", 4 * 2 * 6 * 563 * 20):
        found = native.attend(case.query, case.key, case.value, call, tuple(whole.statistics))
    assert mask.largest < mask.plane.numel() / 4
    assert torch.equal(found.output, whole.output)
    for name, number in whole.statistics.items():
        agree(found.statistics[name], number, 1e-5 if name == "received" else 0.0, name)
    none = replace(call, mask=Checkered(torch.zeros(1, 1, 131, 563, dtype=torch.bool)))
    assert (native.attend(case.query, case.key, case.value, none, ()).output == 0).all()


@built
def test_a_nan_beside_an_infinity_and_an_infinity_alone():
    case = problem((1, 1, 1, 3, 5), scale=1.0, bias=torch.zeros(3, 5))
    case.options["bias"][0, 1], case.options["bias"][1, 1], case.options["bias"][1, 3] = torch.inf, torch.inf, torch.nan
    found, right = case.run("native", EVERY), case.run("reference", EVERY)
    agree(found.lse, right.lse, 1e-5)
    assert found.lse[0, 0].isinf().tolist() == [True, False, False]
    assert found.output[0, 0, :2].isnan().all()
    assert found.statistics["peak"][0, 0, :2].tolist() == [-1, -1]
    assert found.statistics["received"].isnan().all()


@built
def test_a_row_of_nan_leaves_what_it_does_not_see_alone():
    case = problem((1, 1, 2, 9, 7), causal=True)
    query = case.query.clone()
    query[0, 0, 3] = torch.nan
    found, right = case.having(query=query).run("native", EVERY), case.having(query=query).run("reference", EVERY)
    assert found.statistics["received"].isnan().sum() == 2
    agree(found.statistics["received"], right.statistics["received"], 1e-5)


@built
def test_eight_threads_at_once():
    case = problem(causal=True)
    alone = case.run("native", "all")
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: case.run("native", "all"), range(32)))
    assert all(torch.equal(run.output, alone.output) and torch.equal(run.statistics["entropy"], alone.statistics["entropy"]) for run in runs)


@built
def test_the_interpreter_goes_on_meanwhile():
    """The lock of the interpreter is released: another thread counts while a long call runs."""
    q = torch.randn(1, 1, 3000, 64)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: attend(q, q, q, backend="native"))
        turns = 0
        while not running.done():
            turns += 1
            time.sleep(0.001)
    assert turns > 3


@built
@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_stops_it_within_a_second(threads, count):
    threads(count)
    q = torch.zeros(1, 8, 1, 64).expand(1, 8, 200_000, 64)  # hours of work
    rung = []

    def ring(*_):
        rung.append(time.monotonic())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            attend(q, q, q, statistics="all", backend="native")
        assert time.monotonic() - rung[0] < 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


FORK = """
import os, torch
from headwise.attention.attend import attend
torch.set_num_threads(2)
q = torch.ones(1, 4, 700, 8)
right = attend(q, q, q, causal=True, backend="native").output
child = os.fork()
same = torch.equal(attend(q, q, q, causal=True, backend="native").output, right)
if child == 0:
    os._exit(0 if same else 1)
assert same and os.waitpid(child, 0)[1] == 0
"""


@built
def test_a_fork_after_a_call_works():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


@built
def test_it_is_the_default():
    q = torch.randn(1, 2, 5, 8)
    with patch.object(native, "forward", side_effect=RuntimeError("chosen")), pytest.raises(RuntimeError, match="chosen"):
        attend(q, q, q, statistics="all")


def _arrays(**changes):
    """The arguments of the compiled function for a small call."""
    q, rows = torch.zeros(1, 2, 3, 4), torch.zeros(1, 1, 3, dtype=torch.int64)
    none = dict.fromkeys(("mask", "bias", "sink", "segments", "peak", "spans", "received"))
    plain = {
        "query": q,
        "key": q,
        "value": q,
        "first": rows,
        "stop": rows,
        "offset": rows[0, 0, :1],
        "plane_start": 0,
        "scale": 1.0,
        "softcap": 0.0,
        "labels": 0,
    }
    out = {"output": torch.zeros(1, 2, 3, 4), "lse": torch.zeros(1, 2, 3), "number": [None] * 8, "threads": 1, "isa": "baseline"}
    return none | plain | out | changes


@built
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"query": torch.zeros(2, 3, 4)}, "query, key and value must have 4 axes"),
        ({"query": torch.zeros(1, 2, 3, 4, dtype=torch.int32)}, "must be float16, bfloat16, float32 or float64"),
        ({"key": torch.zeros(1, 2, 3, 4, dtype=torch.float64)}, "must be of one type"),
        ({"key": torch.zeros(1, 3, 3, 4)}, "heads of key must divide"),
        ({"key": torch.zeros(1, 2, 3, 5)}, r"key must be \[B, G, S, D\]"),
        ({"value": torch.zeros(1, 2, 2, 4)}, r"value must be \[B, G, S, E\]"),
        ({"first": torch.zeros(1, 1, 3)}, "must be int64"),
        ({"stop": torch.zeros(1, 1, 2, dtype=torch.int64)}, r"stop must broadcast to \[B, H, T\]"),
        ({"mask": torch.zeros(1, 1, 1, 3)}, "mask must be bool"),
        ({"mask": torch.zeros(1, 1, 1, 4, dtype=torch.bool)}, "mask must broadcast"),
        ({"mask": torch.zeros(1, 1, 1, 2, dtype=torch.bool), "plane_start": 2}, "mask must broadcast"),
        ({"bias": torch.zeros(1, 1, 1, 3, dtype=torch.float64)}, "bias must be of the type that is computed in"),
        ({"sink": torch.zeros(2)}, "sink must be float64"),
        ({"segments": torch.zeros(1, 3)}, "segments must be int64"),
        ({"segments": torch.zeros(3, 2, dtype=torch.int64)[None, :, 0]}, "segments must be contiguous"),
        ({"spans": torch.zeros(1, 2, 3, 1)}, "spans must come with segments"),
        ({"output": torch.zeros(1, 2, 4, 3).mT}, "output must be contiguous"),
        ({"output": torch.zeros(1, 2, 3, 3)}, "output must be contiguous"),
        ({"lse": torch.zeros(1, 2, 3, dtype=torch.float64)}, "lse must be contiguous"),
        ({"number": []}, "number must have a place for each statistic"),
        ({"isa": "sparc"}, "isa must be one of those that run here"),
    ],
)
def test_the_door_lets_no_wrong_array_in(changes, says):
    with pytest.raises(ValueError, match=says):
        native.library().attend(**_arrays(**changes))

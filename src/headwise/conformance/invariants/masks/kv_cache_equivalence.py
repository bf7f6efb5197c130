"""I13: a text taken in token by token, or in chunks, gives what it gives all at once."""

from functools import lru_cache

import torch

from headwise.axes import Tensor
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.oracles.attention_oracle import query_positions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import changed
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, layer_problems, make_problem, size_problems


def judge(subject, problem) -> Finding | None:
    if not problem.causal:
        return None
    if isinstance(problem, LayerProblem):
        return _of_layer(subject, problem) if problem.context is None else None
    start = query_positions(problem, subject.conventions)[:, 0]
    if problem.query_offset is not None or not len(start) or problem.shape[2] == 1:
        return None
    whole, allow = subject.attend(problem).output, tolerance(subject, problem).output
    counts = (
        attending_rows(subject, problem)[..., None] if subject.conventions.dead_row == "mean" else torch.ones_like(whole, dtype=torch.bool)
    )  # of fewer keys, another mean
    steps = [(row, int(start[0]) + row) for row in range(problem.shape[2]) if 0 <= start[0] + row < problem.shape[3]]
    for row, p in steps[:: max(len(steps) // 5, 1)]:
        step = at_step(problem, row, p, subject.conventions.corner == "top-left")
        why = f"Query {row} alone with the {p + 1} keys so far gives another output than among all queries."
        found = mismatch(step, subject.attend(step).output, whole[:, :, row : row + 1], 2 * allow[:, :, row : row + 1], why, where=counts[:, :, row : row + 1])
        if found is not None:
            return found
    return None


@lru_cache(maxsize=2048)
def at_step(problem, row: int, p: int, freely: bool):
    """One query as a decoder asks it: with the keys up to its own and no others. `freely`: without the causal flag, and with the keys of its window only."""
    first = _first(problem.window, p) if freely else 0
    planes = {name: _cut(getattr(problem, name), row, first, p) for name in ("mask", "bias") if getattr(problem, name) is not None}
    named = {"key": problem.key[:, :, first : p + 1], "value": problem.value[:, :, first : p + 1]}
    named |= {"causal": False, "window": None} if freely else {}
    return problem.replace(query=problem.query[:, :, row : row + 1], **named, **planes)


def _first(window: int | tuple[int | None, int | None] | None, p: int) -> int:
    """The first key that a window lets the query at p see: where no key stands before the first query, a window cannot be said of one query alone."""
    behind = window - 1 if isinstance(window, int) else None if window is None else window[0]
    return 0 if behind is None else max(p - behind, 0)


def _cut(plane: Tensor, row: int, first: int, p: int) -> Tensor:
    plane = plane[..., first : p + 1] if plane.shape[-1] > 1 else plane
    return plane[..., row : row + 1, :] if plane.dim() > 1 and plane.shape[-2] > 1 else plane


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    tokens, allow = problem.shape[2], tolerance(subject, problem).output
    whole = subject.attend(problem.replace(chunks=())).output
    cuts = {problem.chunks or (tokens,), (1,) * tokens, (tokens - 2, 2)}
    for chunks in sorted(cut for cut in cuts if min(cut) > 0):
        taken = changed(problem, chunks=chunks)
        why = f"Taken in with a cache in chunks of {', '.join(map(str, chunks))} the text gives something else than all at once."
        found = mismatch(taken, subject.attend(taken).output, whole, 2 * allow, why)
        if found is not None:
            return found
    return None


@fit_to_subject
def problems(level: CheckLevel):
    yield from (core_problems()[name] for name in ("causal", "window", "everything", "negative scale", "window without mask"))
    yield from (size_problems()["square"], make_problem(queries=5, window=3, causal=True, seed=57), make_problem(1, 2, 2, 3, 3, causal=True, seed=58))
    yield from (entry for entry in layer_problems().values() if entry.causal and entry.shape[2] > 3)


ENTRY = Invariant(
    code="I13",
    statement="With a cache, in chunks of any lengths, a text gives what it gives all at once.",
    formula="attend(q_i, k_≤i, v_≤i) = attend(q, k, v)_i",
    when="causal; of a layer, where it has a cache",
    judge=judge,
    problems=problems,
    needs=frozenset({"causal"}),
    levels=("call", "layer"),
)

"""I04: a head among others gives what it gives alone. M4 proves it of the algebra; this asks an implementation."""

from functools import lru_cache

import torch

from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.oracles.attention_oracle import kv_head_of
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import layer_problems, standard_problems


def judge(subject, problem) -> Finding | None:
    heads, of_layer = problem.shape[1], isinstance(problem, LayerProblem)
    if heads < 2 or (of_layer and "settable" not in subject.supports):
        return None
    whole, attending = subject.attend(problem).output, attending_rows(subject, problem)
    summed = torch.zeros((), dtype=torch.float64)
    for head in range(heads):
        single = alone(problem, head, subject.conventions)
        found, allow = subject.attend(single).output, tolerance(subject, single).output
        if of_layer:
            summed = summed + found.double()
            continue
        gap = mismatch(
            problem,
            whole[:, head : head + 1],
            found,
            2 * allow,
            f"Head {head} gives another output among the others than alone.",
            where=attending[:, head, :, None][:, None],
        )
        if gap is not None:
            return gap
    if not of_layer:
        return None
    b_o = 0.0 if problem.params.b_o is None else (heads - 1) * problem.params.b_o.double()
    why = "Layers of one head each, with the slices of one head, do not add up to the layer of all."
    return mismatch(problem, whole, summed - b_o, 2 * heads * tolerance(subject, problem).output, why, where=attending.all(1)[..., None])


@lru_cache(maxsize=2048)
def alone(problem, head: int, conventions):
    """One head, the key head that it reads, and what is said about it."""
    cut = slice(head, head + 1)
    planes = {name: getattr(problem, name) for name in ("mask", "bias") if getattr(problem, name) is not None}
    planes = {name: plane[..., cut, :, :] if plane.dim() > 2 and plane.shape[-3] > 1 else plane for name, plane in planes.items()}
    if not isinstance(problem, LayerProblem):
        read = int(kv_head_of(problem.shape[1], problem.key.shape[1], conventions)[head])
        sink = None if problem.sink is None else problem.sink[cut]
        return problem.replace(query=problem.query[:, cut], key=problem.key[:, read : read + 1], value=problem.value[:, read : read + 1], sink=sink, **planes)
    learned = problem.params
    read = int(kv_head_of(problem.shape[1], learned.w_k.shape[1], conventions)[head])
    reads = {"w_q": cut, "b_q": cut, "w_k": slice(read, read + 1), "b_k": slice(read, read + 1), "w_v": slice(read, read + 1), "b_v": slice(read, read + 1)}
    maps = {name: getattr(learned, name)[..., which, :] for name, which in reads.items() if getattr(learned, name) is not None}
    sink = None if learned.sink is None else learned.sink[cut]
    return problem.replace(**maps, w_o=learned.w_o[cut], sink=sink, **planes)


@fit_to_subject
def problems(level: CheckLevel):
    yield from standard_problems(level)
    yield from (layer_problems()[name] for name in ("plain", "everything", "rotary", "cross-attention"))


ENTRY = Invariant(
    code="I04",
    statement="A head among others gives what single-head attention gives with its own slices.",
    formula="attend(q, k, v)_h = attend(q_h, k_g, v_g);  out = Σ_h out of the layer with head h alone",
    when="there are two heads or more",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)

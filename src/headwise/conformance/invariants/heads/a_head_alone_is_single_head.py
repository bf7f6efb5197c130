"""I04: a head among others gives what it gives alone. M4 proves it of the algebra; this asks an implementation."""

from functools import lru_cache

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.attention_oracle import key_heads
from headwise.conformance.oracles.tolerance import alive, ask, differ, room
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layers, settings
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    heads, of_layer = problem.shape[1], isinstance(problem, LayerProblem)
    if heads < 2 or (of_layer and "settable" not in subject.honours):
        return None
    whole, live = ask(subject, problem).output, alive(subject, problem)
    summed = 0.0
    for head in range(heads):
        single = alone(problem, head, subject.conventions)
        found, allow = ask(subject, single).output, room(subject, single).output
        if of_layer:
            summed = summed + found.double()
            continue
        gap = differ(
            problem,
            whole[:, head : head + 1],
            found,
            2 * allow,
            f"Head {head} gives another output among the others than alone.",
            where=live[:, head, :, None][:, None],
        )
        if gap is not None:
            return gap
    if not of_layer:
        return None
    b_o = 0.0 if problem.params.b_o is None else (heads - 1) * problem.params.b_o.double()
    why = "Layers of one head each, with the slices of one head, do not add up to the layer of all."
    return differ(problem, whole, summed - b_o, 2 * heads * room(subject, problem).output, why, where=live.all(1)[..., None])


@lru_cache(maxsize=2048)
def alone(problem, head: int, conventions):
    """One head, the key head that it reads, and what is said about it."""
    cut = slice(head, head + 1)
    planes = {name: getattr(problem, name) for name in ("mask", "bias") if getattr(problem, name) is not None}
    planes = {name: plane[..., cut, :, :] if plane.dim() > 2 and plane.shape[-3] > 1 else plane for name, plane in planes.items()}
    if not isinstance(problem, LayerProblem):
        read = int(key_heads(problem.shape[1], problem.key.shape[1], conventions)[head])
        sink = None if problem.sink is None else problem.sink[cut]
        return problem.having(query=problem.query[:, cut], key=problem.key[:, read : read + 1], value=problem.value[:, read : read + 1], sink=sink, **planes)
    params = problem.params
    read = int(key_heads(problem.shape[1], params.w_k.shape[1], conventions)[head])
    reads = {"w_q": cut, "b_q": cut, "w_k": slice(read, read + 1), "b_k": slice(read, read + 1), "w_v": slice(read, read + 1), "b_v": slice(read, read + 1)}
    maps = {name: getattr(params, name)[..., which, :] for name, which in reads.items() if getattr(params, name) is not None}
    sink = None if params.sink is None else params.sink[cut]
    return problem.having(**maps, w_o=params.w_o[cut], sink=sink, **planes)


@pooled
def problems(level: Level):
    yield from settings(level)
    yield from (layers()[name] for name in ("plain", "everything", "rotary", "looking elsewhere"))


ENTRY = Law(
    code="I04",
    statement="A head among others gives what single-head attention gives with its own slices.",
    formula="attend(q, k, v)_h = attend(q_h, k_g, v_g);  out = Σ_h out of the layer with head h alone",
    when="there are two heads or more",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)

"""I11: where there are fewer key heads than query heads, neighbours share one, and every one is used."""

from functools import lru_cache

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.attention_oracle import key_heads
from headwise.conformance.oracles.tolerance import alive, ask, differ, normal, room, rows
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer, layer_settings, lengths, odd_ones, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if isinstance(problem, LayerProblem):
        return _of_layer(subject, problem)
    reads = torch.from_numpy(key_heads(problem.shape[1], problem.key.shape[1], subject.conventions))
    found = None if problem.sink is not None else _numbered(subject, problem, reads)
    return found or _spread(subject, problem, reads)


@lru_cache(maxsize=1024)
def _named(problem):
    number = torch.arange(problem.key.shape[1], dtype=problem.value.dtype)
    return problem.having(value=number[None, :, None, None].expand(problem.value.shape).contiguous())


def _numbered(subject, problem, reads) -> Finding | None:
    """The values of key head g are all g: then every query head says which one it read."""
    named, number = _named(problem), problem.key.shape[1]
    right = reads.double()[None, :, None, None].expand(*problem.shape[:3], problem.value.shape[3])
    live, allow = alive(subject, problem)[..., None], room(subject, named).output + room(subject, problem).weights.sum(-1)[..., None] * number
    why = "The values of key head g were all g, and a query head should give the number of the key head that it reads."
    return differ(named, ask(subject, named).output, right, allow, why, where=live)


def _spread(subject, problem, reads) -> Finding | None:
    """The same with a key head for every query head."""
    wide = problem.having(key=problem.key[:, reads], value=problem.value[:, reads])
    if problem.key.shape[1] == 1:
        wide = problem.having(key=problem.key.expand(-1, problem.shape[1], -1, -1), value=problem.value.expand(-1, problem.shape[1], -1, -1))
    if "gradients" not in subject.honours:
        how, gradients = How(), ()
    else:
        how, gradients = How(upstream=normal(*problem.shape[:3], problem.value.shape[3], seed=94).to(problem.query)), ("key", "value")
    few, many = ask(subject, problem, how), ask(subject, wide, how)
    live = alive(subject, problem)[..., None]
    why = "Key heads were written out once for every query head, and the output is not the same."
    found = differ(problem, few.output, many.output, 2 * room(subject, problem).output, why, how, live)
    for name in gradients if found is None else ():
        each = many.gradients[name].double()
        summed = torch.zeros(getattr(problem, name).shape, dtype=torch.float64).index_add_(1, reads, each)
        allow = 1e3 * torch.finfo(problem.query.dtype).eps * (1 + each.abs().sum(1, keepdim=True))
        found = found or differ(problem, few.gradients[name], summed, allow, f"The gradient of {name} is not the sum over the query heads that share it.", how)
    return found


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    params = problem.params
    if params.w_k.shape[1] == problem.shape[1] or "settable" not in subject.honours:
        return None
    reads = torch.from_numpy(key_heads(problem.shape[1], params.w_k.shape[1], subject.conventions))
    named = [name for name in ("w_k", "w_v", "b_k", "b_v") if getattr(params, name) is not None]
    wide = problem.having(**{name: getattr(params, name).index_select(-2, reads) for name in named})
    why = "Key heads were written out once for every query head, and the output is not the same."
    live = rows(alive(subject, problem), problem)
    return differ(problem, ask(subject, problem).output, ask(subject, wide).output, 2 * room(subject, problem).output, why, where=live)


@pooled
def problems(level: Level):
    yield from (*witnesses().values(), sizes()["eight heads"], odd_ones()["33 keys"], odd_ones()["six heads, two groups"])
    yield problem(1, 4, 4, 3, 3, seed=54)
    yield problem(2, 2, 1, 3, 33, mask=lengths(33, 33, 31), seed=55)
    yield from layer_settings(level)
    yield layer(sizes={"heads": 4, "groups": 2, "wide": 2}, causal=True, seed=56)


ENTRY = Law(
    code="I11",
    statement="Query head h reads key head h // (H // G): neighbours share, every key head is read, and its gradient is the sum of theirs.",
    formula="z_h = attend(q_h, k_g, v_g), g = h // (H // G)",
    when="always; nothing but their order shows at G = H, and nothing at H = 1",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)

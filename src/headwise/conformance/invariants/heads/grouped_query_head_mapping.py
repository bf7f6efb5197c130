"""I11: where there are fewer key heads than query heads, neighbours share one, and every one is used."""

from functools import lru_cache

import torch

from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, output_rows, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.oracles.attention_oracle import kv_head_of
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import (
    core_problems,
    make_layer_problem,
    make_problem,
    option_problems,
    padding_mask,
    size_problems,
    standard_layer_problems,
)
from headwise.conformance.problems.random_tensors import random_normal


def judge(subject, problem) -> Finding | None:
    if isinstance(problem, LayerProblem):
        return _of_layer(subject, problem)
    reads = torch.from_numpy(kv_head_of(problem.shape[1], problem.key.shape[1], subject.conventions))
    found = None if problem.sink is not None else _numbered(subject, problem, reads)
    return found or _spread(subject, problem, reads)


@lru_cache(maxsize=1024)
def _named(problem):
    number = torch.arange(problem.key.shape[1], dtype=problem.value.dtype)
    return problem.replace(value=number[None, :, None, None].expand(problem.value.shape).contiguous())


def _numbered(subject, problem, reads) -> Finding | None:
    """The values of key head g are all g: then every query head says which one it read."""
    named, number = _named(problem), problem.key.shape[1]
    right = reads.double()[None, :, None, None].expand(*problem.shape[:3], problem.value.shape[3])
    attending, allow = (
        attending_rows(subject, problem)[..., None],
        tolerance(subject, named).output + tolerance(subject, problem).weights.sum(-1)[..., None] * number,
    )
    why = "The values of key head g were all g, and a query head should give the number of the key head that it reads."
    return mismatch(named, subject.attend(named).output, right, allow, why, where=attending)


def _spread(subject, problem, reads) -> Finding | None:
    """The same with a key head for every query head."""
    wide = problem.replace(key=problem.key[:, reads], value=problem.value[:, reads])
    if problem.key.shape[1] == 1:
        wide = problem.replace(key=problem.key.expand(-1, problem.shape[1], -1, -1), value=problem.value.expand(-1, problem.shape[1], -1, -1))
    if "gradients" not in subject.supports:
        mode, gradients = CallMode(), ()
    else:
        mode, gradients = CallMode(upstream=random_normal(*problem.shape[:3], problem.value.shape[3], seed=94).to(problem.query)), ("key", "value")
    few, many = subject.attend(problem, mode), subject.attend(wide, mode)
    attending = attending_rows(subject, problem)[..., None]
    why = "Key heads were written out once for every query head, and the output is not the same."
    found = mismatch(problem, few.output, many.output, 2 * tolerance(subject, problem).output, why, mode, attending)
    for name in gradients if found is None else ():
        each = many.gradients[name].double()
        summed = torch.zeros(getattr(problem, name).shape, dtype=torch.float64).index_add_(1, reads, each)
        allow = 1e3 * torch.finfo(problem.query.dtype).eps * (1 + each.abs().sum(1, keepdim=True))
        found = found or mismatch(
            problem, few.gradients[name], summed, allow, f"The gradient of {name} is not the sum over the query heads that share it.", mode
        )
    return found


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    learned = problem.params
    if learned.w_k.shape[1] == problem.shape[1] or "settable" not in subject.supports:
        return None
    reads = torch.from_numpy(kv_head_of(problem.shape[1], learned.w_k.shape[1], subject.conventions))
    named = [name for name in ("w_k", "w_v", "b_k", "b_v") if getattr(learned, name) is not None]
    wide = problem.replace(**{name: getattr(learned, name).index_select(-2, reads) for name in named})
    why = "Key heads were written out once for every query head, and the output is not the same."
    attending = output_rows(attending_rows(subject, problem), problem)
    return mismatch(problem, subject.attend(problem).output, subject.attend(wide).output, 2 * tolerance(subject, problem).output, why, where=attending)


@fit_to_subject
def problems(level: CheckLevel):
    yield from (*core_problems().values(), size_problems()["eight heads"], option_problems()["33 keys"], option_problems()["six heads, two groups"])
    yield make_problem(1, 4, 4, 3, 3, seed=54)
    yield make_problem(2, 2, 1, 3, 33, mask=padding_mask(33, 33, 31), seed=55)
    yield from standard_layer_problems(level)
    yield make_layer_problem(sizes={"heads": 4, "groups": 2, "value_dim": 2}, causal=True, seed=56)


ENTRY = Invariant(
    code="I11",
    statement="Query head h reads key head h // (H // G): neighbours share, every key head is read, and its gradient is the sum of theirs.",
    formula="z_h = attend(q_h, k_g, v_g), g = h // (H // G)",
    when="always; nothing but their order shows at G = H, and nothing at H = 1",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)

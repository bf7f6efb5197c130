"""I19: where numbers lie in memory is nobody's business: views, steps and repeated heads give what copies give."""

import torch

from headwise.axes import Tensor
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, option_problems, standard_problems
from headwise.conformance.problems.random_tensors import random_normal


def judge(subject, problem) -> Finding | None:
    attending, allow = attending_rows(subject, problem)[..., None], 2 * tolerance(subject, problem).output
    straight = problem.replace(**{name: x.contiguous() for name, x in problem.float_tensors().items()})
    right = subject.attend(straight).output
    planes = {name: _own(getattr(straight, name), straight) for name in ("mask", "bias") if getattr(straight, name) is not None}
    for name, lay in LAYOUTS.items():
        tensors = {tensor: getattr(straight, tensor) for tensor in ("query", "key", "value")} | planes
        laid = straight.replace(**{tensor: lay(x) for tensor, x in tensors.items()})
        found = mismatch(laid, subject.attend(laid).output, right, allow, f"The same numbers {name} give something else.", where=attending)
        if found is not None:
            return found
    found = _repeated(subject, straight)
    return found or (_upstream(subject, straight) if "gradients" in subject.supports else None)


def _own(plane: Tensor, problem) -> Tensor:
    """A mask or a bias with a row for every query and a copy for every text, as far as it differs by head."""
    heads = plane.shape[-3] if plane.dim() > 2 else 1
    return plane.expand(problem.shape[0], heads, *problem.shape[2:])


def heads_last(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def width_first(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


def in_steps(x: Tensor) -> Tensor:
    """Every second number of a larger tensor, from its second on."""
    room = x.new_full((*x.shape[:2], 2 * x.shape[2] + 1, 2 * x.shape[3] + 1), True if x.dtype == torch.bool else 7.0)
    room[:, :, 1::2, 1::2] = x
    return room[:, :, 1::2, 1::2]


LAYOUTS = {"laid out with heads next to widths": heads_last, "laid out width first": width_first, "in every second place": in_steps}


def _repeated(subject, problem) -> Finding | None:
    """One key head, one value and one batch row seen many times without a copy; masks and biases too."""
    views = {name: getattr(problem, name)[:1, :1].expand(getattr(problem, name).shape) for name in ("key", "value")}
    views |= {name: _own(getattr(problem, name), problem) for name in ("mask", "bias") if getattr(problem, name) is not None}
    seen, copied = problem.replace(**views), problem.replace(**{name: view.contiguous() for name, view in views.items()})
    attending = attending_rows(subject, problem)[..., None]
    allow, why = 2 * tolerance(subject, copied).output, "Numbers that are seen many times without a copy give something else."
    return mismatch(seen, subject.attend(seen).output, subject.attend(copied).output, allow, why, where=attending)


def _upstream(subject, problem) -> Finding | None:
    upstream = random_normal(*problem.shape[:3], problem.value.shape[3], seed=103).to(problem.query) * attending_rows(subject, problem)[..., None]
    one, other = (subject.attend(problem, CallMode(upstream=lay(upstream))).gradients for lay in (torch.Tensor.contiguous, heads_last))
    for name, slope in one.items():
        allow = 1e3 * torch.finfo(problem.query.dtype).eps * (1 + float(slope.double().abs().max()) if slope.numel() else 1)
        mode = CallMode(upstream=heads_last(upstream))
        found = mismatch(problem, other[name], slope, allow, f"An upstream gradient that is laid out otherwise changes the gradient of {name}.", mode)
        if found is not None:
            return found
    return None


@fit_to_subject
def problems(level: CheckLevel):
    yield from (core_problems()[name] for name in ("plain", "padding", "everything"))
    yield make_problem(2, 2, 2, 3, 33, seed=78)
    yield option_problems()["33 keys"]
    if level == "full":
        yield from (entry for entry in standard_problems("full") if all(entry.shape))


ENTRY = Invariant(
    code="I19",
    statement="Strides do not matter: views give what copies give, in the inputs and in the upstream gradient.",
    formula="attend(view(x)) = attend(copy(x))",
    when="always",
    judge=judge,
    problems=problems,
)

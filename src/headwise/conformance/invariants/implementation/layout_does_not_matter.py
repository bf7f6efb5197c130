"""I19: where numbers lie in memory is nobody's business: views, steps and repeated heads give what copies give."""

import torch

from headwise.axes import Tensor
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import alive, ask, differ, normal, room
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import odd_ones, problem, settings, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    live, allow = alive(subject, problem)[..., None], 2 * room(subject, problem).output
    straight = problem.having(**{name: x.contiguous() for name, x in problem.floats().items()})
    right = ask(subject, straight).output
    planes = {name: _own(getattr(straight, name), straight) for name in ("mask", "bias") if getattr(straight, name) is not None}
    for name, lay in LAYOUTS.items():
        tensors = {tensor: getattr(straight, tensor) for tensor in ("query", "key", "value")} | planes
        laid = straight.having(**{tensor: lay(x) for tensor, x in tensors.items()})
        found = differ(laid, ask(subject, laid).output, right, allow, f"The same numbers {name} give something else.", where=live)
        if found is not None:
            return found
    found = _repeated(subject, straight)
    return found or (_upstream(subject, straight) if "gradients" in subject.honours else None)


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
    seen, copied = problem.having(**views), problem.having(**{name: view.contiguous() for name, view in views.items()})
    live = alive(subject, problem)[..., None]
    allow, why = 2 * room(subject, copied).output, "Numbers that are seen many times without a copy give something else."
    return differ(seen, ask(subject, seen).output, ask(subject, copied).output, allow, why, where=live)


def _upstream(subject, problem) -> Finding | None:
    upstream = normal(*problem.shape[:3], problem.value.shape[3], seed=103).to(problem.query) * alive(subject, problem)[..., None]
    one, other = (ask(subject, problem, How(upstream=lay(upstream))).gradients for lay in (torch.Tensor.contiguous, heads_last))
    for name, slope in one.items():
        allow = 1e3 * torch.finfo(problem.query.dtype).eps * (1 + float(slope.double().abs().max()) if slope.numel() else 1)
        how = How(upstream=heads_last(upstream))
        found = differ(problem, other[name], slope, allow, f"An upstream gradient that is laid out otherwise changes the gradient of {name}.", how)
        if found is not None:
            return found
    return None


@pooled
def problems(level: Level):
    yield from (witnesses()[name] for name in ("plain", "padding", "everything"))
    yield problem(2, 2, 2, 3, 33, seed=78)
    yield odd_ones()["33 keys"]
    if level == "full":
        yield from (entry for entry in settings("full") if all(entry.shape))


ENTRY = Law(
    code="I19",
    statement="Strides do not matter: views give what copies give, in the inputs and in the upstream gradient.",
    formula="attend(view(x)) = attend(copy(x))",
    when="always",
    judge=judge,
    problems=problems,
)

"""A module as a subject, twice: as a layer, x → out, and as an attention of q, k and v, which its maps are made to let through."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch

from headwise.attention.layer import LayerParams
from headwise.axes import Float, Tensor
from headwise.conformance.adapters.attention_call import CPU
from headwise.conformance.adapters.cut_to_size import cut_call, cut_layer
from headwise.conformance.adapters.pad_to_size import Sizes, larger_call, larger_layer
from headwise.conformance.adapters.subject import Refused
from headwise.conformance.mutations.mutable_attention import answered
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem

Inputs = tuple[Tensor, Tensor, Tensor]
NOTHING = Sizes(0, 0, 0, 0, 0, 0)


@runtime_checkable
class Body(Protocol):
    """What a module's adapter has to offer.

    Attributes:
        apart: query, key and value come in as three inputs.
        grows: it can be made of any size.
    """

    apart: bool
    grows: bool

    def sizes(self, needed: Sizes) -> Sizes:
        """Those of the module that is to hold a problem of these sizes: its own, or the smallest that can be made."""
        ...

    def run(self, params: LayerParams, inputs: Inputs, problem: Any, how: How) -> Answer:
        """The module with these maps, on these inputs, under the options of a problem."""
        ...

    def fresh(self) -> "Body":
        """One that was never called."""
        ...


@dataclass(frozen=True, eq=False)
class ModuleLayer:
    """A module as a layer: a problem's maps are put into it."""

    name: str
    body: Body
    honours: frozenset[str]
    conventions: Conventions
    dtypes: tuple[torch.dtype, ...]
    device: torch.device = CPU
    paths: tuple[str, ...] = ()
    level: ClassVar[Literal["layer"]] = "layer"

    def attend(self, problem: LayerProblem, how: How = PLAINLY) -> Answer:
        return answered(self._walk, problem, how)

    def fresh(self) -> "ModuleLayer":
        """The same with a module that was never called."""
        return replace(self, body=self.body.fresh())

    @property
    def cut(self) -> Callable[[LayerProblem], LayerProblem] | None:
        """Makes any problem one that the module has room for."""
        return None if self.body.grows else partial(cut_layer, sizes=self.body.sizes(NOTHING))

    def _walk(self, problem: LayerProblem, how: How) -> Answer:
        params, heads = problem.params, problem.params.w_q.shape[1]
        needed = Sizes(problem.x.shape[2], params.w_k.shape[0], heads, params.w_k.shape[1], params.w_q.shape[2], params.w_v.shape[2])
        larger = larger_layer(problem, self.body.sizes(needed))
        context = larger.x if larger.context is None else larger.context
        found = self.body.run(larger.params, (larger.x, context, context), larger, how)
        return Answer(found.output[..., : problem.x.shape[2]], own_heads(found.weights, heads, larger.params.w_q.shape[1]))


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """A module as an attention of q, k and v. What comes out is exactly what its heads say, for its maps multiply by 1.

    Where q, k and v are inputs of their own, each map is the identity. Where there is but one x, its tokens are the unit
    vectors: then the rows of the maps are q, k and v themselves.
    """

    name: str
    body: Body
    honours: frozenset[str]
    conventions: Conventions
    dtypes: tuple[torch.dtype, ...]
    device: torch.device = CPU
    paths: tuple[str, ...] = ()
    level: ClassVar[Literal["call"]] = "call"

    def attend(self, problem: Problem, how: How = PLAINLY) -> Answer:
        return answered(self._walk, problem, how)

    def fresh(self) -> "ModuleCall":
        """The same with a module that was never called."""
        return replace(self, body=self.body.fresh())

    @property
    def cut(self) -> Callable[[Problem], Problem] | None:
        """Makes any problem one that the module has room for."""
        return None if self.body.grows else partial(cut_call, sizes=self.body.sizes(NOTHING), square=not self.body.apart)

    def _walk(self, problem: Problem, how: How) -> Answer:
        if not all(bool(x.isfinite().all()) for x in (problem.query, problem.key, problem.value)):
            raise Refused("what is not finite is spread by the maps of a module.")
        batch, heads, queries, keys = problem.shape
        groups, width, wide = problem.key.shape[1], problem.query.shape[3], problem.value.shape[3]
        tokens = batch * max(queries, keys)
        whole = max(heads * width, heads * wide) if self.body.apart else max(heads * wide, tokens)
        sizes = self.body.sizes(Sizes(whole, max(groups * width, groups * wide) if self.body.apart else tokens, heads, groups, width, wide))
        larger = larger_call(problem, sizes)
        if self.body.apart:
            params, inputs = identity(larger, sizes)
        else:
            larger = squared(larger)
            params, inputs = unit_tokens(larger, sizes)
        found = self.body.run(params, inputs, larger, how)
        said = found.output[..., : sizes.heads * sizes.wide].unflatten(-1, (sizes.heads, sizes.wide)).transpose(1, 2)
        weights = own_heads(found.weights, heads, sizes.heads)
        return Answer(said[:, :heads, -queries or said.shape[2] :, :wide], None if weights is None else weights[..., -queries or weights.shape[-2] :, :])


def own_heads(weights: Tensor | None, heads: int, there: int) -> Tensor | None:
    """The weights of the heads that are not filling.

    Raises:
        Refused: they are averaged over all.
    """
    if weights is None or heads == there:
        return weights
    if weights.dim() == 3:
        raise Refused("weights averaged over more heads than those asked for say nothing of them.")
    return weights[:, :heads]


def merged(x: Float[Tensor, "B H T D"], wide: int) -> Float[Tensor, "B T M"]:
    """Heads side by side, filled up to a width."""
    flat = x.transpose(1, 2).flatten(2)
    return torch.nn.functional.pad(flat, (0, wide - flat.shape[-1]))


def identity(problem: Problem, sizes: Sizes) -> tuple[LayerParams, Inputs]:
    """Maps that let q, k and v through, which come in as they are.

    Raises:
        Refused: the module is narrower than its heads together.
    """
    if max(sizes.heads * sizes.width, sizes.heads * sizes.wide) > sizes.model or sizes.groups * max(sizes.width, sizes.wide) > sizes.context:
        raise Refused("the module is narrower than its heads together.")
    one = {"dtype": problem.query.dtype, "device": problem.query.device}
    w_q = torch.eye(sizes.model, sizes.heads * sizes.width, **one).unflatten(1, (sizes.heads, sizes.width))
    w_k = torch.eye(sizes.context, sizes.groups * sizes.width, **one).unflatten(1, (sizes.groups, sizes.width))
    w_v = torch.eye(sizes.context, sizes.groups * sizes.wide, **one).unflatten(1, (sizes.groups, sizes.wide))
    inputs = merged(problem.query, sizes.model), merged(problem.key, sizes.context), merged(problem.value, sizes.context)
    return LayerParams(w_q, w_k, w_v, _out(problem, sizes)), inputs


def unit_tokens(problem: Problem, sizes: Sizes) -> tuple[LayerParams, Inputs]:
    """x of unit vectors, one a token of any text, and maps whose rows are q, k and v.

    Raises:
        Refused: there are more tokens than the model is wide.
    """
    batch, _, tokens, _ = problem.query.shape
    if batch * tokens > sizes.model or sizes.heads * sizes.wide > sizes.model or sizes.context != sizes.model:
        raise Refused(f"a module that is {sizes.model} wide takes {sizes.model} tokens in all.")
    x = torch.eye(batch * tokens, sizes.model, dtype=problem.query.dtype, device=problem.query.device).unflatten(0, (batch, tokens))
    rows = [
        torch.nn.functional.pad(part.transpose(1, 2).flatten(0, 1), (0, 0, 0, 0, 0, sizes.model - batch * tokens))
        for part in (problem.query, problem.key, problem.value)
    ]
    return LayerParams(*rows, _out(problem, sizes)), (x, x, x)


def _out(problem: Problem, sizes: Sizes) -> Tensor:
    eye = torch.eye(sizes.heads * sizes.wide, sizes.model, dtype=problem.query.dtype, device=problem.query.device)
    return eye.unflatten(0, (sizes.heads, sizes.wide))


def squared(problem: Problem) -> Problem:
    """The same with a query for every key; those that were not asked for come first, and see all.

    Raises:
        Refused: there are more queries than keys, or they do not stand at the end.
    """
    _, _, queries, keys = problem.shape
    more = keys - queries
    if more == 0 and problem.query_offset in (None, 0):
        return problem.having(query_offset=None)
    if more < 0 or problem.query_offset not in (None, more):
        raise Refused("self-attention has a key for every query, and no others before them.")
    changes = {"query": torch.nn.functional.pad(problem.query, (0, 0, more, 0)), "query_offset": None}
    for name, fill in (("mask", True), ("bias", 0.0)):
        plane = getattr(problem, name)
        if (plane is not None and plane.dim() > 1 and plane.shape[-2] > 1) or (plane is not None and queries == 1 and plane.dim() > 1):
            whole = plane.expand(*plane.shape[:-2], queries, plane.shape[-1])
            changes[name] = torch.cat([whole.new_full((*whole.shape[:-2], more, whole.shape[-1]), fill), whole], -2)
    return problem.having(**changes)

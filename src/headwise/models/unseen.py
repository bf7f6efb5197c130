"""Attention that does not come by: a softmax whose result multiplies values, computed outside our attention function.

Every operator that a pass executes is looked at once. Attention gives itself away by what it does, not by its name:

- a fused attention operator;
- a softmax (or an exponential divided by its own sum) whose result is multiplied, as a matrix, with something that the
  input decides: a weight of the model there would make it a lookup, and a router's softmax scales outputs one by one;
- a softmax of any use in a module that calls itself attention, when neither it nor a module inside it has called ours.
"""

import re
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from headwise.axes import Tensor

ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)
FUSED = re.compile(r"scaled_dot_product|flash_att|efficient_att|multi_head_attention|transformer_encoder_layer|attention_forward", re.IGNORECASE)
SOFTMAX = frozenset(("aten::_softmax", "aten::_safe_softmax", "aten::softmax"))
PRODUCTS = frozenset(("aten::bmm", "aten::mm", "aten::baddbmm", "aten::addmm", "aten::addbmm", "aten::mv", "aten::dot"))
RESHAPES = frozenset(("aten::slice", "aten::expand", "aten::narrow"))


class Scene(Protocol):
    """Where in the model the pass is."""

    busy: bool  # our own code runs

    def where(self) -> tuple[tuple[str, str], ...]:
        """The running modules, outermost first: qualified name and class name."""
        ...


@dataclass(frozen=True)
class Softmax:
    """One softmax outside our function: the modules around it."""

    around: tuple[tuple[str, str], ...]


class Lookout(TorchDispatchMode):
    """Looks at every operator of a pass."""

    def __init__(self, scene: Scene, learned: list[Tensor]) -> None:
        super().__init__()
        self.scene = scene
        self.learned = {x.untyped_storage().data_ptr() for x in learned}
        self.marks = WeakIdKeyDictionary()  # tensor: ("exp" | "sum" | "softmax", Softmax)
        self.softmaxes: list[Softmax] = []
        self.attentions: list[Softmax] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.scene.busy:
            self._look(func._schema.name, args, result)
        return result

    def _look(self, name: str, args: Any, result: Any) -> None:
        if FUSED.search(name):
            self.attentions.append(Softmax(self.scene.where()))
        elif name in SOFTMAX:
            self._softmax(result)
        elif name in ("aten::exp", "aten::exp_"):
            self.marks[result] = ("exp", None)
        elif self.marks:
            self._follow(name, [x for x in tree_leaves(args) if isinstance(x, Tensor)], result)

    def _softmax(self, result: Tensor) -> None:
        found = Softmax(self.scene.where())
        self.softmaxes.append(found)
        self.marks[result] = ("softmax", found)

    def _follow(self, name: str, tensors: list[Tensor], result: Any) -> None:
        marked = [(x, *self.marks[x]) for x in tensors if x in self.marks]
        if not marked or not isinstance(result, Tensor):
            return
        if name in PRODUCTS:
            self._product(marked, tensors)
        elif name in ("aten::sum", "aten::sum.dim_IntList") and marked[0][1] == "exp":
            self.marks[result] = ("sum", None)
        elif name in ("aten::div", "aten::div_") and [kind for _, kind, _ in marked[:2]] == ["exp", "sum"]:
            self._softmax(result)
        else:
            tensor, kind, found = marked[0]
            if result.numel() == tensor.numel() or name in RESHAPES:
                self.marks[result] = (kind, found)

    def _product(self, marked: list[Any], tensors: list[Tensor]) -> None:
        pair = tensors[-2:]
        for tensor, kind, found in marked:
            others = [x for x in pair if x is not tensor and x.untyped_storage().data_ptr() not in self.learned]
            if kind == "softmax" and others and found not in self.attentions:
                self.attentions.append(found)


def unseen(lookout: Lookout, callers: list[str]) -> list[str]:
    """The modules whose attention did not come by; `callers` are those whose did."""
    found = [_name(softmax) for softmax in lookout.attentions]
    for softmax in lookout.softmaxes:
        named = [name for name, kind in softmax.around if ATTENTION.search(kind)]
        if named and not any(caller == named[-1] or caller.startswith(f"{named[-1]}.") for caller in callers):
            found.append(named[-1])
    return list(dict.fromkeys(found))


def _name(softmax: Softmax) -> str:
    return softmax.around[-1][0] if softmax.around else "the model itself"

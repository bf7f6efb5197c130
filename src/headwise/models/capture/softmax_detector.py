"""Attention that does not come by our function: a softmax whose result multiplies values, which the model computes itself.

Every operator that a pass executes is looked at once. Attention gives itself away by what it does, not by its name:

- a fused attention operator;
- a softmax (or an exponential divided by its own sum) whose result is multiplied, as a matrix, with something that the
  input decides: a weight of the model there would make it a lookup, and a router's softmax scales outputs one by one;
- a softmax of any use in a module that calls itself attention, when neither it nor a module inside it has called ours.
"""

import re
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from headwise.axes import Tensor
from headwise.errors import UnseenAttention
from headwise.models.masks.diagonal_bias import DiagonalTensor
from headwise.models.masks.mask_description import MaskHandle

ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)
FUSED = re.compile(r"scaled_dot_product|flash_att|efficient_att|multi_head_attention|transformer_encoder_layer|attention_forward", re.IGNORECASE)
SOFTMAX = frozenset(("aten::_softmax", "aten::_safe_softmax", "aten::softmax"))
PRODUCTS = frozenset(("aten::bmm", "aten::mm", "aten::baddbmm", "aten::addmm", "aten::addbmm", "aten::mv", "aten::dot"))
RESHAPES = frozenset(("aten::slice", "aten::expand", "aten::narrow"))
MOVES = ("view", "_unsafe_view", "transpose", "permute", "clone", "_to_copy", "unsqueeze", "squeeze", "expand", "alias", "t", "select", "slice")
COPIES = frozenset(("aten::clone", "aten::_to_copy"))
VIEWS = frozenset(f"aten::{name}" for name in MOVES)


@runtime_checkable
class CaptureContext(Protocol):
    """Where in the model the pass is."""

    busy: bool  # our own code runs

    def capture_product(self, weights: Tensor, value: Tensor, said: Tensor, shape: tuple[int, ...]) -> Tensor | None:
        """Told of a product of weights with values: what takes its result's place, or None when it cannot be read as attention."""
        ...

    def capture_fused(self, named: dict[str, Any], said: Tensor) -> Tensor | None:
        """Told of a fused operator and its arguments, likewise."""
        ...

    def where(self) -> tuple[tuple[str, str], ...]:
        """The running modules, outermost first: qualified name and class name."""
        ...

    def is_within_tokens(self, shape: tuple[int, ...]) -> bool:
        """Whether a softmax of this shape mixes what stands beside each other at one token, such as its residual streams, and no tokens."""
        ...


@dataclass(frozen=True)
class SoftmaxUse:
    """One softmax outside our function: the modules around it."""

    around: tuple[tuple[str, str], ...]
    shape: tuple[int, ...] = ()


class SoftmaxDetector(TorchDispatchMode):
    """Looks at every operator of a pass."""

    supports_higher_order_operators = True  # torch refuses them otherwise, in words about this class

    def __init__(self, scene: CaptureContext, learned: list[Tensor]) -> None:
        super().__init__()
        self.scene = scene
        self.learned = {x.untyped_storage().data_ptr() for x in learned}
        self.marks = WeakIdKeyDictionary()  # tensor: ("exp" | "sum" | "softmax", Softmax)
        self.softmaxes: list[SoftmaxUse] = []
        self.attentions: list[SoftmaxUse] = []
        self.captured: list[SoftmaxUse] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator) and "flex_attention" in func.name() and not self.scene.busy:
            raise UnseenAttention(flex_refusal(self.scene.where()))
        result = func(*args, **(kwargs or {}))
        if not self.scene.busy and not isinstance(func, HigherOrderOperator):
            return self._look(func._schema, args, kwargs or {}, result)
        return result

    def _look(self, schema: Any, args: Any, kwargs: dict[str, Any], result: Any) -> Any:
        name = schema.name
        if FUSED.search(name):
            return self._fused(schema, args, kwargs, result)
        if name in SOFTMAX:
            self._softmax(result)
        elif name in ("aten::exp", "aten::exp_"):
            self.marks[result] = ("exp", None)
        elif name in COPIES and isinstance(args[0], Tensor) and self._is_learned(args[0]):
            self.marks[result] = ("learned", None)
        elif self.marks:
            return self._follow(name, [x for x in tree_leaves(args) if isinstance(x, Tensor)], result)
        return result

    def _fused(self, schema: Any, args: Any, kwargs: dict[str, Any], result: Any) -> Any:
        named = {argument.name: x for argument, x in zip(schema.arguments, args, strict=False)} | kwargs
        said = result[0] if isinstance(result, tuple) else result
        told = self.scene.capture_fused(named, said) if {"query", "key", "value"} <= set(named) and "proj_weight" not in named else None
        if told is None:
            self.attentions.append(SoftmaxUse(self.scene.where()))
            return result
        return (told, *result[1:]) if isinstance(result, tuple) else told

    def _softmax(self, result: Tensor) -> None:
        found = SoftmaxUse(self.scene.where(), tuple(result.shape))
        self.softmaxes.append(found)
        if not self.scene.is_within_tokens(found.shape):
            self.marks[result] = ("softmax", found)

    def _follow(self, name: str, tensors: list[Tensor], result: Any) -> Any:
        marked = [(x, *self.marks[x]) for x in tensors if x in self.marks]
        if not marked or not isinstance(result, Tensor):
            return result
        if name in PRODUCTS:
            return self._product(marked, tensors, result)
        if name in ("aten::sum", "aten::sum.dim_IntList") and marked[0][1] == "exp":
            self.marks[result] = ("sum", None)
        elif name in ("aten::div", "aten::div_") and [kind for _, kind, _ in marked[:2]] == ["exp", "sum"]:
            self._softmax(result)
        else:
            tensor, kind, found = marked[0]
            if name in VIEWS if kind in ("said", "learned") else result.numel() == tensor.numel() or name in RESHAPES:
                self.marks[result] = (kind, found)
        return result

    def _product(self, marked: list[Any], tensors: list[Tensor], result: Tensor) -> Tensor:
        pair = tensors[-2:]
        for tensor, kind, found in marked:
            others = [x for x in pair if x is not tensor and not self._is_learned(x)]
            if not others or kind not in ("softmax", "said"):
                continue
            told = self._captured(pair, tensor, result, found) if kind == "softmax" else None
            if told is not None:
                self.captured.append(found)
                self.marks[told] = ("said", found)
                return told
            self.attentions.append(found)
        return result

    def _is_learned(self, x: Tensor) -> bool:
        """Whether a tensor is a weight of the model, or a copy of one in another order."""
        if isinstance(x, MaskHandle | DiagonalTensor):  # in a tensor's clothes, without a storage
            return False
        return x.untyped_storage().data_ptr() in self.learned or self.marks.get(x, ("", None))[0] == "learned"

    def _captured(self, pair: list[Tensor], weights: Tensor, result: Tensor, found: SoftmaxUse) -> Tensor | None:
        """Let the scene hear of a product, weights first and with three axes."""
        one, other = (x if x.dim() == 3 else x[None] for x in pair)
        flat = result if result.dim() == 3 else result[None]
        if pair[0] is weights:
            told = self.scene.capture_product(one, other, flat, found.shape)
        else:
            told = self.scene.capture_product(other.transpose(1, 2), one.transpose(1, 2), flat.transpose(1, 2), found.shape)
            told = None if told is None else told.transpose(1, 2)
        return None if told is None else told.reshape(result.shape)


def unread_attention(detector: SoftmaxDetector, callers: list[str]) -> tuple[list[str], list[str]]:
    """The modules whose attention could not be read; and those that call themselves attention and whose softmax multiplies no values.

    Args:
        callers: the modules whose attention was heard.
    """
    missed = [_name(softmax) for softmax in detector.attentions]
    captured = {id(softmax) for softmax in detector.captured}
    other = []
    for softmax in detector.softmaxes:
        named = [name for name, kind in softmax.around if ATTENTION.search(kind)]
        if id(softmax) not in captured and named and not any(caller == named[-1] or caller.startswith(f"{named[-1]}.") for caller in callers):
            other.append(named[-1])
    return list(dict.fromkeys(missed)), [name for name in dict.fromkeys(other) if name not in missed]


def flex_refusal(around: tuple[tuple[str, str], ...]) -> str:
    """Why attention by torch's flex_attention, called directly, is not read."""
    name = around[-1][0] if around else ""
    return (
        f"{name or 'The model itself'} calls torch.nn.attention.flex_attention, which computes its attention inside one operator, by functions of the caller: "
        "its weights cannot be read. Call torch.nn.functional.scaled_dot_product_attention with a mask there, "
        "or, in a model of transformers, its attention interface."
    )


def _name(softmax: SoftmaxUse) -> str:
    return softmax.around[-1][0] if softmax.around else "the model itself"

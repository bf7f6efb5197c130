"""The loss with a slice of W_O's output set to 0, which is not the same as ablating a head: every head writes to every slice."""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from headwise.axes import Float, Tensor
from headwise.errors import WritesRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from headwise.analysis.ablation.eval_text import EvalText
    from headwise.models.runs.places import Place


@torch.no_grad()
def losses_sliced(passage: "EvalText", place: "Place", heads: Sequence[int]) -> Float[Tensor, " n"]:
    """The loss with the h-th of H slices of W_O's output at 0, for each of these h.

    Raises:
        WritesRefused: W_O is shared by several layers, or the width of its output is no multiple of H.
    """
    forward = passage.forward
    output = forward.session.layout.sites[place.index].output
    if sum(other.module == output.module for other in forward.session.layout.by_output.values()) > 1 or len(output.calls) > 1:
        raise WritesRefused(f"W_O must serve one layer for its output to be sliced, got {output.module}, which serves several.")
    found = []
    for some in torch.tensor(heads).split(passage.at_once):
        with _sliced(forward.twin.get_submodule(output.module), place.heads, some):
            outputs = forward.outputs([place.index], lambda call, read: read, len(some))
        found.append(passage.loss(outputs, len(some)))
    return torch.cat(found).double().cpu()


@contextmanager
def _sliced(module: "nn.Module", heads: int, some: Tensor) -> "Iterator[None]":
    """Set slice `some[n]` of the module's output to 0 in copy n of the batch."""

    def cut(module: "nn.Module", args: Any, result: Tensor) -> Tensor:
        if result.shape[-1] % heads:
            raise WritesRefused(f"output of W_O must have a multiple of {heads} numbers to be sliced by head, got {result.shape[-1]}.")
        copies = result.clone().unflatten(0, (len(some), -1)).unflatten(-1, (heads, -1))
        for copy, head in enumerate(some.tolist()):
            copies[copy, ..., head, :] = 0
        return copies.flatten(-2).flatten(0, 1)

    handle = module.register_forward_hook(cut)
    try:
        yield
    finally:
        handle.remove()

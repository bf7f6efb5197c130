"""Where in the parameters a head is: the rows or columns that are its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from headwise.axes import Tensor
from headwise.errors import ArgumentError, WritesRefused
from headwise.models.layout import AttentionSite, is_linear


@dataclass(frozen=True)
class HeadBlock:
    """The part of a parameter that belongs to one head: some indices along one axis.

    Attributes:
        parameter: qualified name.
        axis: of the parameter.
        indices: along that axis, in the order of the head's features.

    Example:
        >>> block = HeadBlock("o_proj.weight", 1, (2, 3))
        >>> block.of(torch.arange(8).reshape(2, 4)).tolist()
        [[2, 3], [6, 7]]
        >>> block.put(torch.zeros(2, 4), torch.ones(2, 2)).tolist()
        [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    """

    parameter: str
    axis: int
    indices: tuple[int, ...]

    def of(self, whole: Tensor) -> Tensor:
        """The head's part of the parameter: a copy."""
        return whole.detach().index_select(self.axis, self.index(whole))

    def put(self, whole: Tensor, part: Tensor) -> Tensor:
        """A new parameter, in which the head's part is this one and all else as it was."""
        return whole.detach().index_copy(self.axis, self.index(whole), part.to(whole))

    def without(self, whole: Tensor) -> Tensor:
        """A new, smaller parameter without the head's part."""
        kept = torch.ones(whole.shape[self.axis], dtype=torch.bool)
        kept[list(self.indices)] = False
        return whole.detach().index_select(self.axis, kept.nonzero()[:, 0].to(whole.device))

    def index(self, whole: Tensor) -> Tensor:
        return torch.tensor(self.indices, dtype=torch.int64, device=whole.device)


def output_block(hf: nn.Module, site: AttentionSite, heads: int, head: int) -> HeadBlock:
    """The part of W_O that multiplies a head's z: columns of a Linear, rows of a Conv1D.

    Args:
        site: the attention call; several calls may share one W_O: see `sharing`.
        heads: how many the call has.

    Raises:
        WritesRefused: heads cannot be separated between attention and W_O; the message gives the reason.
        ArgumentError: no such head.
    """
    if site.output is None:
        raise WritesRefused(f"writes of {site.module} cannot be attributed to heads: {site.refusal}.")
    if not 0 <= head < heads:
        raise ArgumentError(f"head must be in 0..{heads - 1} in {site.module}, got {head}. Choose one of these.")
    module = hf.get_submodule(site.output.module)
    if not is_linear(module):
        raise WritesRefused(f"W_O of {site.module} must be in a Linear or Conv1D, got {type(module).__name__}. It has no block of its own for each head.")
    axis = 0 if isinstance(module, Conv1D) else 1
    width = module.weight.shape[axis] // heads  # pyright: ignore[reportIndexIssue, reportAttributeAccessIssue, reportArgumentType]
    return HeadBlock(f"{site.output.module}.weight", axis, tuple(range(head * width, (head + 1) * width)))


def calls_sharing_w_o(site: AttentionSite, sites: Sequence[AttentionSite]) -> tuple[int, ...]:
    """The calls whose heads go through the same W_O, this one among them: more than one where a layer is used again (ALBERT)."""
    if site.output is None:
        return (site.index,)
    return tuple(other.index for other in sites if other.output is not None and other.output.module == site.output.module)

"""Whether a linear module reads the z of some calls: how W_O is recognised."""

from enum import Enum

import torch

from headwise.axes import Tensor


class InputMatch(Enum):
    """The input of a linear module, compared with z."""

    EXACT = "the same, token by token"
    SEQUENCE_FIRST = "the same, with tokens before batch rows"
    OTHER = "something else"


def match_z(read: Tensor, outputs: list[Tensor]) -> InputMatch:
    """Compare an input with the z of some calls, [B, H, T, E] each; calls may differ in batch and length."""
    rows = [z.transpose(1, 2).flatten(2).to(read.dtype) for z in outputs]
    if sum(x.numel() for x in rows) != read.numel():
        return InputMatch.OTHER
    if torch.equal(read.reshape(-1, read.shape[-1]), torch.cat([x.flatten(0, 1) for x in rows])):
        return InputMatch.EXACT
    if len(rows) == 1 and read.dim() == 3 and read.shape[:2] == rows[0].shape[1::-1] and torch.equal(read.transpose(0, 1), rows[0]):
        return InputMatch.SEQUENCE_FIRST
    return InputMatch.OTHER


def has_token_order(read: Tensor, outputs: list[Tensor]) -> bool:
    """Whether a tensor that is not z has, by its shape, the same tokens in the same order."""
    counts = [z.shape[0] * z.shape[2] for z in outputs]
    if read.dim() == 2 or (read.dim() == 3 and read.shape[0] == 1):
        return read.shape[-2] == sum(counts)
    return len(outputs) == 1 and read.dim() == 3 and tuple(read.shape[:2]) == (outputs[0].shape[0], outputs[0].shape[2])

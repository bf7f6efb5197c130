"""Whether a linear module reads what the heads of some calls say: how W_O is recognised."""

from enum import Enum

import torch

from headwise.axes import Tensor


class InputMatch(Enum):
    """What a linear module reads, compared with what the heads say."""

    EXACT = "the same, token by token"
    SEQUENCE_FIRST = "the same, with tokens before batch rows"
    OTHER = "something else"


def match_z(read: Tensor, said: list[Tensor]) -> InputMatch:
    """Compare with what the calls' heads say, [B, H, T, E] each; calls may differ in batch and length."""
    rows = [z.transpose(1, 2).flatten(2).to(read.dtype) for z in said]
    if sum(x.numel() for x in rows) != read.numel():
        return InputMatch.OTHER
    if torch.equal(read.reshape(-1, read.shape[-1]), torch.cat([x.flatten(0, 1) for x in rows])):
        return InputMatch.EXACT
    if len(rows) == 1 and read.dim() == 3 and read.shape[:2] == rows[0].shape[1::-1] and torch.equal(read.transpose(0, 1), rows[0]):
        return InputMatch.SEQUENCE_FIRST
    return InputMatch.OTHER


def has_token_order(read: Tensor, said: list[Tensor]) -> bool:
    """Whether a tensor that is not the heads' own words has, by its shape, their tokens in their order."""
    counts = [z.shape[0] * z.shape[2] for z in said]
    if read.dim() == 2 or (read.dim() == 3 and read.shape[0] == 1):
        return read.shape[-2] == sum(counts)
    return len(said) == 1 and read.dim() == 3 and tuple(read.shape[:2]) == (said[0].shape[0], said[0].shape[2])

"""From tokens to words: which tokens are which word's, and one map of weights between words.

Weight to a word in pieces is the sum over its pieces, weight from it the mean over them, so that a row still adds up.

References: Clark et al. 2019, "What Does BERT Look At?", section 4.1.
"""

from collections.abc import Sequence
from typing import Any

import torch

from headwise.axes import Float, Tensor
from headwise.errors import ModelError


def joined(weights: Float[Tensor, "H T S"], units: Sequence[Sequence[int]], key_units: Sequence[Sequence[int]]) -> Float[Tensor, "H t s"]:
    """Weights between words.

    Example:
        >>> weights = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]])
        >>> joined(weights, [[0], [1, 2]], [[0], [1, 2]])[0].tolist()
        [[1.0, 0.0], [0.375, 0.625]]
    """
    to, came = (_belongs(groups, length) for groups, length in ((key_units, weights.shape[2]), (units, weights.shape[1])))
    share = came / came.sum(1, keepdim=True)
    return torch.einsum("ut,hts,vs->huv", share.to(weights), weights, to.to(weights))


def _belongs(groups: Sequence[Sequence[int]], length: int) -> Float[Tensor, "u T"]:
    found = torch.zeros(len(groups), length)
    places = [(unit, token) for unit, tokens in enumerate(groups) for token in tokens]
    if places:
        found[tuple(torch.tensor(places).t())] = 1
    return found


def tokens_of(tokenizer: Any, text: str, spans: Sequence[tuple[int, int]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """The ids of a text with the tokenizer's own special tokens, and which tokens each span of characters touches.

    Args:
        spans: first character and the one behind the last.

    Raises:
        ModelError: the tokenizer cannot tell where in the text a token stands.
    """
    if tokenizer is None:
        raise ModelError("a tokenizer must be there to tell words apart, got none with this model. Pass tokenizer= to open_model.")
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"a tokenizer must tell where tokens stand in the text, got {type(tokenizer).__name__}. Load its fast version.")
    encoded = tokenizer(text, return_offsets_mapping=True)
    places = [_without_spaces(text, int(start), int(stop)) for start, stop in encoded["offset_mapping"]]
    touched = [tuple(i for i, (first, behind) in enumerate(places) if first < stop and behind > start) for start, stop in spans]
    return list(encoded["input_ids"]), touched


def _without_spaces(text: str, start: int, stop: int) -> tuple[int, int]:
    """The part of a token that is not white space before it, which belongs to no word."""
    while start < stop and text[start].isspace():
        start += 1
    return start, stop

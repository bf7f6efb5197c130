"""Tokens taken in chunks, as a decoder with a KV cache takes them."""

import torch

from headwise.axes import Tensor
from headwise.conformance.problems.layer_problem import LayerProblem


def chunk_slices(problem: LayerProblem) -> list[slice]:
    """The slices of the tokens, in order."""
    ends = [sum(problem.chunks[: n + 1]) for n in range(len(problem.chunks))] or [problem.x.shape[1]]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def plane_of_chunk(plane: Tensor | None, chunk: slice, keys: int) -> Tensor | None:
    """The rows of a mask or bias that belong to a chunk, and its first `keys` columns; axes of length 1 stay."""
    if plane is None:
        return None
    plane = plane[(None,) * (4 - plane.dim())]
    return plane[:, :, chunk if plane.shape[2] > 1 else slice(None), : keys if plane.shape[3] > 1 else None]


def pad_keys(weights: Tensor, keys: int) -> Tensor:
    """Weights with zeros for the keys of later chunks."""
    return torch.nn.functional.pad(weights, (0, keys - weights.shape[-1]))

"""Check that the shapes of a layer's parameters and inputs fit together, before anything is computed."""

from collections.abc import Mapping

import torch

from headwise.axes import Tensor
from headwise.errors import ArgumentTypeError, ShapeError


def divisors(number: int) -> str:
    """The divisors of a number, for an error that offers them.

    Example:
        >>> divisors(8)
        '1, 2, 4 or 8'
    """
    found = [str(n) for n in range(1, number + 1) if number % n == 0]
    return " or ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def check_params(params: Mapping[str, Tensor | None]) -> None:
    """Check the parameters of a layer, by name: w_q [M, H, D], w_k [C, G, D], w_v [C, G, E], w_o [H, E, M], biases and sink.

    Raises:
        ShapeError: an axis that two of them share has two lengths, or G does not divide H.
    """
    for name in ("w_q", "w_k", "w_v"):
        if params[name].dim() != 3:
            raise ShapeError(f"{name} must have 3 axes [model, heads, width], got {list(params[name].shape)}. Split it by head first.")
    (m, h, d), (c, g, _), e = params["w_q"].shape, params["w_k"].shape, params["w_v"].shape[2]
    if g == 0 or h % g:
        raise ShapeError(f"heads of w_k must divide heads of w_q, got {g} and {h}. Choose {divisors(h)}.")
    expected = {"w_k": [c, g, d], "w_v": [c, g, e], "w_o": [h, e, m], "b_q": [h, d], "b_k": [g, d], "b_v": [g, e], "b_o": [m], "sink": [h]}
    for name, shape in expected.items():
        tensor = params[name]
        if tensor is not None and list(tensor.shape) != shape:
            raise ShapeError(f"{name} must be {shape} beside w_q {[m, h, d]}, w_k [{c}, {g}, …] and w_v [{c}, {g}, {e}], got {list(tensor.shape)}. Reshape it.")


def check_inputs(x: Tensor, context: Tensor | None, w_q: Tensor, w_k: Tensor) -> None:
    """Check x and the context of a layer.

    Raises:
        ShapeError: the wrong number of axes, the wrong width, or different batch sizes.
        ArgumentTypeError: not a tensor, or of another dtype than the parameters.
    """
    _check_tokens("x", x, w_q)
    if context is not None:
        _check_tokens("context", context, w_k)
        if len(context) != len(x):
            raise ShapeError(f"context must have the batch of x, got {len(context)} and {len(x)}. Expand the smaller.")
    elif w_k.shape[0] != w_q.shape[0]:
        raise ShapeError(f"context must be given, of width {w_k.shape[0]}, got None. Self-attention needs a w_k that reads the width of x.")


def _check_tokens(name: str, x: Tensor, w: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise ArgumentTypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}. Convert it with torch.as_tensor.")
    if x.dim() != 3 or x.shape[2] != w.shape[0]:
        raise ShapeError(f"{name} must be [batch, length, {w.shape[0]}], got {list(x.shape)}. Add the missing axes, or check the width.")
    if x.dtype != w.dtype and not torch.is_autocast_enabled(x.device.type):
        raise ArgumentTypeError(f"{name} must have the dtype of the layer, got {x.dtype} and {w.dtype}. Convert one of them.")

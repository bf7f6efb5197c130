"""The content of tensors and arrays: every element, with dtype, shape and device, independent of strides and shared storage."""

from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.errors import FingerprintError
from headwise.storage.content import Content

if TYPE_CHECKING:
    import torch

SPARSE = {
    "sparse_coo": ("indices", "values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}
PER_TENSOR = ("per_tensor_affine", "per_tensor_symmetric")


def array_content(array: np.ndarray) -> Content:
    """The content of a NumPy array; an array of objects counts as a list of them."""
    if array.dtype.hasobject:
        return Content("array of objects", f"{array.shape}".encode(), [("", x) for x in array.ravel().tolist()])
    return Content("array", f"{array.dtype.str} {array.shape}".encode(), [("", memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))])  # pyright: ignore[reportArgumentType]


def tensor_content(x: "torch.Tensor") -> Content:
    """The content of a tensor of any layout, quantisation or subclass.

    Raises:
        FingerprintError: it has no data (meta device), or its data cannot be read.
    """
    import torch

    about = f"{x.dtype} {list(x.shape)} {_device(x)} {x.layout}".encode()
    if x.device.type == "meta":
        raise FingerprintError(f"a tensor on the meta device has no data to fingerprint; got one of shape {list(x.shape)}. Load its weights first.")
    if type(x) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return Content("tensor subclass", about, _subclass_parts(x))
    with torch.no_grad():
        x = x.detach()
        if x.is_nested:
            return Content("nested tensor", f"{x.dtype} {_device(x)}".encode(), [("", part) for part in x.unbind()])
        if x.is_quantized:
            return Content("quantised tensor", about + str(x.qscheme()).encode(), _quantised_parts(x))
        layout = str(x.layout).removeprefix("torch.")
        if layout in SPARSE:
            x = x.coalesce() if layout == "sparse_coo" else x
            return Content("sparse tensor", about, [(name, getattr(x, name)()) for name in SPARSE[layout]])
        return Content("tensor", about, [("", _bytes(x))])


def _device(x: "torch.Tensor") -> str:
    return str(x.device)


def _bytes(x: "torch.Tensor") -> memoryview:
    import torch

    try:
        plain = x.to_dense() if x.layout != torch.strided else x
        plain = plain.resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        return memoryview(plain.view(torch.uint8).numpy())  # pyright: ignore[reportArgumentType]
    except (RuntimeError, TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise FingerprintError(f"the data of a {x.dtype} tensor on {x.device} cannot be read: {reason}. Move it to the CPU first.") from None


def _quantised_parts(x: "torch.Tensor") -> list[tuple[str, Any]]:
    scheme = str(x.qscheme()).removeprefix("torch.")
    if scheme in PER_TENSOR:
        return [("codes", x.int_repr()), ("scale", x.q_scale()), ("zero", x.q_zero_point())]
    return [("codes", x.int_repr()), ("scale", x.q_per_channel_scales()), ("zero", x.q_per_channel_zero_points()), ("axis", x.q_per_channel_axis())]


def _subclass_parts(x: "torch.Tensor") -> list[tuple[str, Any]]:
    """A wrapper subclass consists of the tensors it declares; any other of its storage and its attributes (bitsandbytes keeps scales there)."""
    import torch

    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    flatten = getattr(x, "__tensor_flatten__", None)
    if flatten is not None:
        names, context = flatten()
        return [("class", kind), ("context", context), *((name, getattr(x, name)) for name in names)]
    return [("class", kind), ("storage", x.as_subclass(torch.Tensor)), ("attributes", dict(vars(x)))]

"""One operator of ONNX, run by ONNX Runtime."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from headwise.axes import Tensor
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported

PRESENT = ("present_key", "present_value")  # what a cache has become; asked for where there is a past


def run(operator: str, domain: str, opset: int, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any], outputs: Sequence[str] = ("output",)) -> Tensor:
    """The first output of the operator; None stands for an input that is left out.

    Raises:
        Refused: ONNX Runtime makes no session of it, and says so before anything is computed.
    """
    named = [f"input_{n}" if tensor is not None else "" for n, tensor in enumerate(inputs)]
    kinds = tuple((name, str(tensor.dtype), tensor.dim()) for name, tensor in zip(named, inputs, strict=True) if tensor is not None)
    fed = {name: tensor.detach().contiguous().numpy() for name, tensor in zip(named, inputs, strict=True) if tensor is not None}
    try:
        session = _session(operator, domain, opset, tuple(named), kinds, tuple(sorted(attributes.items())), tuple(outputs))
    except Exception as error:
        raise NotSupported(f"{operator}: {_words(error)}") from error
    try:
        return torch.from_numpy(session.run(["output"], fed)[0])
    except Exception as error:
        raise RuntimeError(_words(error)) from error


def _words(error: Exception) -> str:
    """What ONNX Runtime says, without the place in its source."""
    return str(error).strip().splitlines()[0].rpartition("Status Message: ")[2].rpartition("was false. ")[2][:160]


@lru_cache(maxsize=256)
def _session(
    operator: str,
    domain: str,
    opset: int,
    named: tuple[str, ...],
    kinds: tuple[tuple[str, str, int], ...],
    attributes: tuple[tuple[str, Any], ...],
    outputs: tuple[str, ...],
) -> Any:
    """A session for a graph of this one node."""
    import onnxruntime
    from onnx import TensorProto, helper

    types = {"torch.float32": TensorProto.FLOAT, "torch.float16": TensorProto.FLOAT16, "torch.bool": TensorProto.BOOL, "torch.int32": TensorProto.INT32}
    while named and not named[-1]:
        named = named[:-1]
    given = [helper.make_tensor_value_info(name, types[dtype], [None] * axes) for name, dtype, axes in kinds]
    made = [helper.make_tensor_value_info(name, types[kinds[0][1]], [None] * (kinds[0][2] if name == "output" else 4)) for name in outputs]
    node = helper.make_node(operator, list(named), list(outputs), domain=domain, **dict(attributes))
    graph = helper.make_graph([node], operator, given, made)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def merged(x: Tensor) -> Tensor:
    """Heads side by side, [B, T, H·D]."""
    return x.transpose(1, 2).flatten(2)


def apart(x: Tensor, heads: int) -> Tensor:
    """[B, T, H·E] as [B, H, T, E]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def plane(problem: Problem, hidden: float = -torch.inf) -> Tensor | None:
    """A mask and a bias as one plane that is added; None where there is neither."""
    if problem.mask is None:
        return problem.bias
    zero = problem.query.new_zeros(()) if problem.bias is None else problem.bias
    return torch.where(problem.mask, zero, hidden)


def full(x: Tensor) -> Tensor:
    """Four axes; those along which it broadcasts stay 1."""
    return x[(None,) * (4 - x.dim())]

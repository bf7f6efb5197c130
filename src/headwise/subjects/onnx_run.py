"""One operator of ONNX, run by ONNX Runtime."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from headwise.axes import Tensor


def run(operator: str, domain: str, opset: int, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any]) -> Tensor:
    """The first output of the operator; None stands for an input that is left out."""
    named = [f"input_{n}" if tensor is not None else "" for n, tensor in enumerate(inputs)]
    kinds = tuple((name, str(tensor.dtype), tensor.dim()) for name, tensor in zip(named, inputs, strict=True) if tensor is not None)
    session = _session(operator, domain, opset, tuple(named), kinds, tuple(sorted(attributes.items())))
    fed = {name: tensor.detach().contiguous().numpy() for name, tensor in zip(named, inputs, strict=True) if tensor is not None}
    return torch.from_numpy(session.run(["output"], fed)[0])


@lru_cache(maxsize=256)
def _session(
    operator: str, domain: str, opset: int, named: tuple[str, ...], kinds: tuple[tuple[str, str, int], ...], attributes: tuple[tuple[str, Any], ...]
) -> Any:
    """A session for a graph of this one node."""
    import onnxruntime
    from onnx import TensorProto, helper

    types = {"torch.float32": TensorProto.FLOAT, "torch.float16": TensorProto.FLOAT16, "torch.bool": TensorProto.BOOL, "torch.int32": TensorProto.INT32}
    while named and not named[-1]:
        named = named[:-1]
    inputs = [helper.make_tensor_value_info(name, types[dtype], [None] * axes) for name, dtype, axes in kinds]
    outputs = [helper.make_tensor_value_info("output", types[kinds[0][1]], [None] * kinds[0][2])]
    node = helper.make_node(operator, list(named), ["output"], domain=domain, **dict(attributes))
    graph = helper.make_graph([node], operator, inputs, outputs)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

"""Numbers are read one after the other from where a tensor begins, whatever its strides say."""

import torch

from headwise.attention.dense import repeat_kv
from headwise.axes import Tensor
from headwise.conformance.mutations.lie import Lie


def straight(x: Tensor) -> Tensor:
    if not x.numel():
        return x
    memory = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return memory[(torch.arange(x.numel()) + x.storage_offset()) % len(memory)].reshape(x.shape)


ENTRY = Lie(
    code="M64",
    lie="Tensors are contiguous.",
    told={
        "queries, keys and values": {
            "q": lambda at: straight(at.problem.query),
            "k": lambda at: repeat_kv(straight(at.problem.key), at.problem.shape[1]),
            "v": lambda at: repeat_kv(straight(at.problem.value), at.problem.shape[1]),
        }
    },
    caught_by=("layout_does_not_matter",),
    blind_when="tensors are contiguous",
    seen_in=("pytorch/pytorch#112577", "pytorch/pytorch#181133"),
)

"""Numbers are read one after the other from where a tensor begins, whatever its strides say."""

import torch

from headwise.attention.dense import repeat_kv
from headwise.axes import Tensor
from headwise.conformance.mutations.mutation import Mutation


def straight(x: Tensor) -> Tensor:
    if not x.numel():
        return x
    memory = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return memory[(torch.arange(x.numel()) + x.storage_offset()) % len(memory)].reshape(x.shape)


ENTRY = Mutation(
    code="M64",
    description="Tensors are contiguous.",
    variants={
        "queries, keys and values": {
            "q": lambda state: straight(state.problem.query),
            "k": lambda state: repeat_kv(straight(state.problem.key), state.problem.shape[1]),
            "v": lambda state: repeat_kv(straight(state.problem.value), state.problem.shape[1]),
        }
    },
    detected_by=("memory_layout_invariance",),
    harmless_when="tensors are contiguous",
    reported_in=("pytorch/pytorch#112577", "pytorch/pytorch#181133"),
)

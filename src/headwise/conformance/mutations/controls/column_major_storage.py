"""No fault: tensors are laid out column by column before they are used."""

from headwise.attention.dense import repeat_kv
from headwise.axes import Tensor
from headwise.conformance.mutations.mutation import Mutation


def by_column(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


ENTRY = Mutation(
    code="E8",
    description="Kᵀ·Q is the wrong way round.",
    variants={
        "columns first": {
            "q": lambda state: by_column(state.problem.query),
            "k": lambda state: by_column(repeat_kv(state.problem.key, state.problem.shape[1])),
            "v": lambda state: by_column(repeat_kv(state.problem.value, state.problem.shape[1])),
        }
    },
    detected_by=(),
    harmless_when="strides are looked at",
    reported_in=("karpathy/llm.c#531",),
)

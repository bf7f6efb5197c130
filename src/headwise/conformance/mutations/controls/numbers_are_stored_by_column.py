"""No fault: tensors are laid out column by column before they are used."""

from headwise.attention.dense import repeat_kv
from headwise.axes import Tensor
from headwise.conformance.mutations.lie import Lie


def by_column(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


ENTRY = Lie(
    code="E8",
    lie="Kᵀ·Q is the wrong way round.",
    told={
        "columns first": {
            "q": lambda at: by_column(at.problem.query),
            "k": lambda at: by_column(repeat_kv(at.problem.key, at.problem.shape[1])),
            "v": lambda at: by_column(repeat_kv(at.problem.value, at.problem.shape[1])),
        }
    },
    caught_by=(),
    blind_when="strides are looked at",
    seen_in=("karpathy/llm.c#531",),
)

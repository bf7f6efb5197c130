"""With more than one row in the batch the keys are summed in two halves: the last bits depend on who else is there."""

from headwise.conformance.mutations.mutable_attention import State, z
from headwise.conformance.mutations.mutation import Mutation


def in_halves(state: State):
    half = state.k.shape[2] // 2
    if len(state.q) < 2 or not half or not bool(state.v.isfinite().all()):
        return z(state)
    kept, v = state.used_weights, state.v.to(state.used_weights.dtype)
    return (kept[..., half:] @ v[:, :, half:] + kept[..., :half] @ v[:, :, :half]).to(state.v.dtype)


ENTRY = Mutation(
    code="M74",
    description="The order of a sum does not matter.",
    variants={"two halves": {"z": in_halves}},
    detected_by=("batch_independence",),
    harmless_when="bits are not claimed to be independent of the batch",
    reported_in=("pegainfer-project/pegainfer#613",),
)

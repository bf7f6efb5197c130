"""With more than one row in the batch the keys are summed in two halves: the last bits depend on who else is there."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, z


def in_halves(at: At):
    half = at.k.shape[2] // 2
    if len(at.q) < 2 or not half or not bool(at.v.isfinite().all()):
        return z(at)
    kept, v = at.kept, at.v.to(at.kept.dtype)
    return (kept[..., half:] @ v[:, :, half:] + kept[..., :half] @ v[:, :, :half]).to(at.v.dtype)


ENTRY = Lie(
    code="M74",
    lie="The order of a sum does not matter.",
    told={"two halves": {"z": in_halves}},
    caught_by=("batch_rows_stand_alone",),
    blind_when="bits are not claimed to be independent of the batch",
    seen_in=("pegainfer-project/pegainfer#613",),
)

"""The guard for rows that see nothing turns every NaN into 0, also one that came with a query."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, weights


def swept(at: At):
    return weights(at).nan_to_num(0.0)


ENTRY = Lie(
    code="M63",
    lie="A NaN means that a row sees nothing.",
    told={"nan to 0": {"weights": swept}},
    caught_by=("nan_stays_in_its_row",),
    blind_when="queries are finite",
    seen_in=("pytorch/pytorch#141128",),
)

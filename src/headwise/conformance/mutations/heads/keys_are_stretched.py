"""The layer multiplies its keys with a factor that nobody asked for."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, read_k


def stretched(at: At):
    return 1.5 * read_k(at)


ENTRY = Lie(
    code="",
    lie="A constant is learned away.",
    told={"1.5 k": {"read_k": stretched}},
    caught_by=("scale_is_one_over_root_d", "error_stays_within_rounding", "heads_write_separately"),
    level="layer",
    blind_when="a row sees one key",
)

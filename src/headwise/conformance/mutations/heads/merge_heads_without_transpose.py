"""What the heads say is read side by side as it lies in memory: tokens of one head stand for heads of one token."""

from headwise.conformance.mutations.mutable_layer import State, z
from headwise.conformance.mutations.mutation import Mutation


def as_it_lies(state: State):
    original = z(state)
    batch, heads, tokens, wide = original.shape
    return original.reshape(batch, tokens, heads, wide).transpose(1, 2)


def heads_before_batch(state: State):
    original = z(state)
    batch, heads, tokens, wide = original.shape
    return original.reshape(heads, batch, tokens, wide).transpose(0, 1)


ENTRY = Mutation(
    code="M32",
    description="A reshape is as good as a transpose.",
    variants={"reshape": {"z": as_it_lies}, "view(H, B, T, E)": {"z": heads_before_batch}},
    detected_by=("output_projection_per_head",),
    level="layer",
    harmless_when="there is one head or one token",
    reported_in=("jsbaan/transformer-from-scratch#6", "gazelle93/Transformer-Various-Positional-Encoding#1"),
)

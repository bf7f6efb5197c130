"""The projected text is cut into heads as if heads came first in memory: a head gets some tokens of all features."""

from headwise.conformance.mutations.mutable_layer import State, project_k, project_q, project_v
from headwise.conformance.mutations.mutation import Mutation


def by_tokens(read):
    def split(state: State):
        original = read(state)  # B H T D
        return original.transpose(1, 2).reshape(original.shape)

    return split


def by_features(read):
    def split(state: State):
        original = read(state)
        batch, heads, tokens, width = original.shape
        return original.transpose(1, 2).reshape(batch, tokens, width, heads).permute(0, 3, 1, 2)

    return split


def told(split):
    return {"project_q": split(project_q), "project_k": split(project_k), "project_v": split(project_v)}


ENTRY = Mutation(
    code="M31",
    description="A view is as good as a transpose.",
    variants={"view(B, H, T, D)": told(by_tokens), "view(B, T, D, H)": told(by_features)},
    detected_by=("output_projection_per_head", "heads_do_not_interact"),
    level="layer",
    harmless_when="there is one head",
    reported_in=("reczoo/FuxiCTR#30",),
)

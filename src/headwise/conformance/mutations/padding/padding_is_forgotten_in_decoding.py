"""The padding mask goes to the first pass over the prompt and to no later step."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, rules


def first_pass_only(at: At):
    return {**rules(at), "mask": rules(at)["mask"] if at.past is None else None}


ENTRY = Lie(
    code="M56",
    lie="Padding is a matter of the prompt.",
    told={"no mask in later steps": {"rules": first_pass_only}},
    caught_by=("padding_does_not_matter", "batch_rows_stand_alone"),
    level="layer",
    blind_when="no text is padded on the left",
    seen_in=("TransformerLensOrg/TransformerLens#1005",),
)

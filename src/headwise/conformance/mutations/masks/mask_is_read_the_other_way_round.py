"""True means hidden, where True was to mean seen."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def turned(at: At):
    honest = call(at)
    return honest if honest.mask is None else replace(honest, mask=~honest.mask)


ENTRY = Lie(
    code="M11",
    lie="True is padding.",
    told={"not the mask": {"call": turned}},
    caught_by=("hidden_keys_do_not_matter", "padding_does_not_matter"),
    blind_when="there is no mask",
    seen_in=("InseeFrLab/torchTextClassifiers#92",),
)

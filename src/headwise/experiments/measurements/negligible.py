"""How much of a loss is next to nothing: 1 % of it; of a distance from the model's own output, which is 0 for the model itself, 0.01."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.experiments.study import Study

NEGLIGIBLE = 0.01
OWN_LOSSES = ("next", "masked")  # losses that the unchanged model has, too
NEGLIGIBLE_TEXT = {
    "next": "the loss rises by 1 %",
    "masked": "the loss on masked words rises by 1 %",
    "kl": "the model's own distribution over tokens moves by 0.01 nats (KL)",
    "cosine": "the model's own output turns by 0.01 (1 − cosine)",
}
COST_UNITS = {"next": "of the loss", "masked": "of the loss", "kl": "nats", "cosine": "1 − cosine"}


def loss_scale(study: "Study") -> float:
    """What costs are divided by, so that `NEGLIGIBLE` means the same for every loss: the model's own loss, where it has one."""
    if study.loss not in OWN_LOSSES:
        return 1.0
    return float((study.base * study.counts).sum() / study.counts.sum())

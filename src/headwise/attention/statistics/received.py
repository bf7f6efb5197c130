"""How much attention a key gets from all queries together."""

from headwise.attention.statistic import Scene, Statistic
from headwise.axes import Float, Tensor, Weights


def of_weights(weights: Weights, scene: Scene) -> Float[Tensor, "B H S"]:
    return weights.sum(-2)


ENTRY = Statistic(
    statement="What a key receives from all queries together: its column's sum.",
    formula="Σ_i w_ij",
    of_weights=of_weights,
    running=None,
    dead=None,
    asked_by_name=True,
    unit="rows",
)

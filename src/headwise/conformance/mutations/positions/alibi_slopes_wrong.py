"""ALiBi's slopes begin one too early; or they are one geometric series also where H is no power of two."""

from headwise.attention.position import Alibi
from headwise.conformance.mutations.mutable_layer import State
from headwise.conformance.mutations.mutation import Mutation


def series(first: int):
    def slopes(state: State):
        heads = state.params.w_q.shape[1]
        usual = isinstance(state.problem.position, Alibi) and state.problem.position.slopes is None
        return Alibi(tuple(2 ** (-8 * n / heads) for n in range(first, first + heads))) if usual else state.problem.position

    return slopes


ENTRY = Mutation(
    code="M50",
    description="Slopes are 2 to the -8/H.",
    variants={"from n = 0": {"position": series(0)}, "one series for any H": {"position": series(1)}},
    detected_by=("golden_values",),
    level="layer",
    harmless_when="slopes are given; one series also where H is a power of two",
    reported_in=("ml-explore/mlx#3071",),
)

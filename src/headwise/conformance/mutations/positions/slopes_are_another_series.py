"""ALiBi's slopes begin one too early; or they are one geometric series also where H is no power of two."""

from headwise.attention.position import Alibi
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At


def series(first: int):
    def slopes(at: At):
        heads = at.maps.w_q.shape[1]
        usual = isinstance(at.problem.position, Alibi) and at.problem.position.slopes is None
        return Alibi(tuple(2 ** (-8 * n / heads) for n in range(first, first + heads))) if usual else at.problem.position

    return slopes


ENTRY = Lie(
    code="M50",
    lie="Slopes are 2 to the -8/H.",
    told={"from n = 0": {"position": series(0)}, "one series for any H": {"position": series(1)}},
    caught_by=("golden_numbers",),
    level="layer",
    blind_when="slopes are given; one series also where H is a power of two",
    seen_in=("ml-explore/mlx#3071",),
)

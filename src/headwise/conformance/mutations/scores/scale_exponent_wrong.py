"""Scores are not scaled at all, or by 1/D, or multiplied by √D; or one path forgot."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def power(of: float, when=lambda state: True):
    def choose(state: State):
        usual = state.problem.scale is None and state.problem.query.shape[3] > 0 and when(state)
        return replace(call(state), scale=float(state.problem.query.shape[3]) ** of) if usual else call(state)

    return choose


ENTRY = Mutation(
    code="M27",
    description="A factor is a divisor.",
    variants={
        "1": {"call": power(0)},
        "1/D": {"call": power(-1)},
        "√D": {"call": power(0.5)},
        "1 where weights are asked for": {"call": power(0, lambda state: state.mode.weights)},
    },
    detected_by=("default_scale",),
    harmless_when="heads are 1 wide",
    reported_in=("esceptico/perceiver-io#9", "mlc-ai/mlc-llm#3426"),
)

"""Scores are not scaled at all, or by 1/D, or multiplied by √D; or one path forgot."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def power(of: float, when=lambda at: True):
    def choose(at: At):
        usual = at.problem.scale is None and at.problem.query.shape[3] > 0 and when(at)
        return replace(call(at), scale=float(at.problem.query.shape[3]) ** of) if usual else call(at)

    return choose


ENTRY = Lie(
    code="M27",
    lie="A factor is a divisor.",
    told={
        "1": {"call": power(0)},
        "1/D": {"call": power(-1)},
        "√D": {"call": power(0.5)},
        "1 where weights are asked for": {"call": power(0, lambda at: at.how.weights)},
    },
    caught_by=("scale_is_one_over_root_d",),
    blind_when="heads are 1 wide",
    seen_in=("esceptico/perceiver-io#9", "mlc-ai/mlc-llm#3426"),
)

"""Whether a run's numbers are right: judged in float64 on rows of every layer, and against the model as it was loaded.

The pass is run again, and each call is judged while its tensors are there; nothing of it is kept. The judge is the
`reference` kernel, which shares no code with the one that made the numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headwise.axes import Tensor
from headwise.models.agreement import agreement
from headwise.models.facts import Facts
from headwise.models.judge import Judge
from headwise.models.session import Session
from headwise.models.verdict import Verdict


@dataclass(frozen=True)
class Proof:
    """What was verified, and how closely it holds."""

    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong; what could not be judged counts as neither."""
        return all(verdict.holds is not False for verdict in self.verdicts)

    def __str__(self) -> str:
        return "\n".join(str(verdict) for verdict in self.verdicts)


def prove(session: Session, facts: Facts, outputs: Mapping[str, Tensor]) -> Proof:
    """Judge a run: its pass again, and the model as it was loaded.

    Raises:
        ModelError: the model has been changed since the run.
    """
    judge = Judge(session, facts)
    session.again(judge)
    return Proof((*judge.verdicts(), agreement(session, outputs)))

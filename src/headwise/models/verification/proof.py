"""Whether a run's numbers are right: judged in float64 on rows of every layer, and against the model as it was loaded.

The pass is run again, and each call is judged while its tensors are there; nothing of it is kept. The judge is the
`reference` kernel, which shares no code with the one that made the numbers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwise.axes import Tensor
from headwise.models.capture.forward_pass import ForwardPass
from headwise.models.capture.hf_attention import DIFFERS
from headwise.models.runs.run_metadata import RunMetadata
from headwise.models.verification.call_judge import CallJudge
from headwise.models.verification.logit_parity import logit_parity
from headwise.verdict import Verdict, Verdicts


@dataclass(frozen=True)
class Proof:
    """The checks of one run.

    Attributes:
        verdicts: of the whole run, by name; each is that of the layer closest to failing.
        layers: the verdicts of each attention call alone, in the order of the forward pass.
    """

    verdicts: Verdicts[Verdict]
    layers: tuple[Verdicts[Verdict], ...] = field(default=(), repr=False)

    @property
    def passed(self) -> bool:
        """Whether no check failed; a check that could not be made counts as neither."""
        return self.verdicts.passed

    def __str__(self) -> str:
        return str(self.verdicts)


def prove(forward_pass: ForwardPass, metadata: RunMetadata, outputs: Mapping[str, Tensor]) -> Proof:
    """Judge a run: its pass again, and the model as it was loaded.

    Raises:
        ModelError: the model has been changed since the run.
    """
    judges = [CallJudge(forward_pass, metadata) for _ in metadata.places]
    forward_pass.rerun(lambda record: judges[record.index](record))
    layers = tuple(Verdicts(judge.verdicts()) for judge in judges)
    whole = tuple(closest(verdicts) for verdicts in zip(*(layer.values() for layer in layers), strict=True))
    differ = any(note.startswith(DIFFERS) for place in metadata.places for note in metadata.numbers[place.index].notes)
    return Proof(Verdicts((*whole, logit_parity(forward_pass, outputs, differ))), layers)


def closest(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several verdicts on one claim the one that uses up most of what rounding allows; one that could not be judged where none could.

    Example:
        >>> closest([Verdict("rows", "", True, 1e-7, 1e-6), Verdict("rows", "", None), Verdict("rows", "", True, 3e-7, 1e-6)]).residual
        3e-07
    """
    return max(verdicts, key=_use)


def _use(verdict: Verdict) -> float:
    if verdict.passed is None or verdict.residual is None:
        return -1.0
    if verdict.residual != verdict.residual:
        return float("inf")
    if not verdict.allowed:
        return 0.0 if verdict.residual == 0 else float("inf")
    return verdict.residual / verdict.allowed

"""The work of ranking, cut into units that any process can do: one layer of one text at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwise.analysis.ablation import gradient, patching
from headwise.analysis.ablation.eval_text import EvalText, Evaluator, real_queries
from headwise.analysis.ablation.exact_ablation import MeanAblation, Replacement, ablated_losses, resample_ablation, zero_ablation
from headwise.models.runs.places import Place

if TYPE_CHECKING:
    from headwise.models.model import Model

Unit = tuple[int, int]  # text and layer; layer -1: all layers at once


@dataclass(frozen=True)
class Plan:
    """How importance is measured.

    Attributes:
        method: "ablation", "gradient", "write" or "patch".
        ablation: "zero", "mean" or "resample": what a silenced head says instead.
        loss: what is lost; see `losses`.
        metric: what patching measures; the difference of two logits when absent.
    """

    method: str
    ablation: str = "zero"
    loss: str = "next"
    metric: patching.Metric | None = None
    part: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Result:
    """What came out of a unit.

    Attributes:
        effects: a row a layer, a number a head.
        tokens: that the loss is a mean over.
        base: the loss of the unchanged model.
    """

    effects: list[list[float]]
    tokens: int
    base: float


class Worker:
    """Does units; keeps the last text on tape, as the next unit is often of the same."""

    def __init__(self, model: "Model", texts: Sequence[Any], plan: Plan) -> None:
        self.model, self.texts, self.plan = model, texts, plan
        self.opener = Evaluator(model, plan.loss, plan.part, plan.seed)
        self.kept: dict[Any, EvalText] = {}
        self.means: MeanAblation | None = None

    def places(self) -> tuple[Place, ...]:
        """The layers whose heads are ranked."""
        first = self.texts[0][0] if self.plan.method == "patch" else self.texts[0]
        return self._open(0, first).places

    def units(self) -> list[Unit]:
        """All that is to be done: text by text, and layer by layer where that costs."""
        layers = range(len(self.places())) if self.plan.method in ("ablation", "patch") else (-1,)
        return [(text, layer) for text in range(len(self.texts)) for layer in layers]

    def work(self, unit: Unit) -> Result:
        """Do one unit."""
        text, layer = unit
        if self.plan.method == "patch":
            return self._patched(text, layer)
        passage = self._open(text, self.texts[text])
        if self.plan.method == "gradient":
            return self._result(passage, [list(map(float, effect)) for effect in gradient.effects(passage)])
        if self.plan.method == "write":
            return self._result(passage, write_shares(passage))
        self.opener.learn(passage)
        place = passage.places[layer]
        silent = self._instead(text)(passage, place.index)
        return self._result(passage, [(ablated_losses(passage, place, silent) - passage.base).tolist()])

    def _result(self, passage: EvalText, effects: list[list[float]]) -> Result:
        return Result(effects, passage.loss.tokens, passage.base)

    def _patched(self, text: int, layer: int) -> Result:
        clean, corrupt = (self._open((text, side), self.texts[text][side]) for side in (0, 1))
        self.opener.learn(corrupt)
        both = patching.pair(clean, corrupt, self.plan.metric)
        return Result([patching.recovered(both, corrupt.places[layer]).tolist()], 1, both.start)

    def _instead(self, text: int) -> Replacement:
        if self.plan.ablation == "mean":
            return self._mean()
        if self.plan.ablation == "resample":
            other = (text + 1) % len(self.texts)
            return resample_ablation(self._open(other, self.texts[other]))
        return zero_ablation

    def _mean(self) -> MeanAblation:
        if self.means is None:
            self.means = MeanAblation()
            for number, text in enumerate(self.texts):
                self.means.see(self._open(number, text))
        return self.means

    def _open(self, name: Any, text: Any) -> EvalText:
        """The passage, from the last few that were opened."""
        if name not in self.kept:
            while len(self.kept) > 1:
                del self.kept[next(iter(self.kept))]
            self.kept[name] = self.opener.open(text)
        return self.kept[name]


def write_shares(passage: EvalText) -> list[list[float]]:
    """How much of what all heads of a layer add is each one's, mean over tokens."""
    from headwise.models.runs.head_writes import write_measures

    cache, session = passage.forward.cache, passage.forward.session
    found = []
    for place in passage.places:
        output = session.layout.sites[place.index].output
        share = write_measures(cache.wo_inputs[place.index], session.module(output.module))["share"]
        padding = ~real_queries(passage, place)
        found.append(share.masked_fill(padding[:, None, :], float("nan")).nanmean((0, 2)).tolist())
    return found

"""Every head of a part answers the questions of a role; what is kept is a sum and a count a text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headwise.analysis.layer_weights import layer_weights
from headwise.analysis.roles.role import Ask, Questions, Reading
from headwise.analysis.roles.word_alignment import joined
from headwise.axes import Float, Tensor

if TYPE_CHECKING:
    from headwise.models.model import Model

RIVAL = "rival"


@dataclass(frozen=True, eq=False)
class Evidence:
    """The answers to one task. Sums are over the questions about a text.

    Attributes:
        scores: of every head, [texts, L, H].
        rival: what each head gives to rivals, as many as there are right ones; None without rivals.
        guesses: what each simpler rule scores.
        counts: questions a text.
    """

    task: str
    scores: Float[Tensor, "n L H"]
    rival: Float[Tensor, "n L H"] | None
    guesses: Mapping[str, Float[Tensor, " n"]]
    counts: Float[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class _Text:
    """The answers about one text to one task."""

    scores: Float[Tensor, "L H"]
    rival: Float[Tensor, "L H"] | None
    guesses: Mapping[str, float]
    count: int


@dataclass(frozen=True)
class Asking:
    """What one role asks about each reading.

    Attributes:
        role: its name.
        ask: makes the questions.
        hit: whether the largest weight counts, or the weight itself.
    """

    role: str
    ask: Ask
    hit: bool


def gather(
    model: "Model", readings: Iterable[Reading], asking: Sequence[Asking], part: str, tell: Callable[[], None] = lambda: None
) -> dict[str, dict[str, Evidence]]:
    """Let every head answer what several roles ask about the same readings: the model reads each once.

    Args:
        part: which attention of the model.
        tell: called after each reading.

    Returns:
        By role and task.
    """
    found: dict[str, dict[str, list[_Text]]] = {one.role: {} for one in asking}
    for reading in readings:
        for role, questions, text in _answered(model, reading, asking, part):
            found[role].setdefault(questions.task, []).append(text)
        tell()
    return {role: {task: _evidence(task, texts) for task, texts in tasks.items()} for role, tasks in found.items()}


def _answered(model: "Model", reading: Reading, asking: Sequence[Asking], part: str) -> list[tuple[str, Questions, _Text]]:
    asked = {one: [questions for questions in one.ask(reading) if len(questions.query)] for one in asking}
    asked = {one: questions for one, questions in asked.items() if questions}
    if not asked:
        return []
    run = model.run(reading.given, statistics=(), memory="8GiB")
    every = {one: _All(questions) for one, questions in asked.items()}
    layers: dict[Asking, list[tuple[Tensor, Tensor]]] = {one: [] for one in asked}
    for layer in range(sum(place.part == part for place in run.places)):
        weights = layer_weights(run, layer, part)[0].float()
        if reading.units is not None:
            weights = joined(weights, reading.units, reading.key_units or reading.units)
        for one, sums in layers.items():
            sums.append(every[one].sums(weights, one.hit))
    return [(one.role, questions, text) for one in asked for questions, text in zip(asked[one], _texts(asked[one], layers[one]), strict=True)]


def _texts(asked: Sequence[Questions], layers: Sequence[tuple[Tensor, Tensor]]) -> list[_Text]:
    scores, rivals = (_stacked([sums[i] for sums in layers]) for i in (0, 1))
    return [_text(questions, scores[:, :, k], rivals[:, :, k]) for k, questions in enumerate(asked)]


class _All:
    """The questions of all tasks about a text, answered together."""

    def __init__(self, asked: list[Questions]) -> None:
        self.query = torch.cat([questions.query for questions in asked])
        self.right, self.among = (torch.cat([getattr(questions, name) for questions in asked]) for name in ("right", "among"))
        self.rival = torch.cat([torch.zeros_like(questions.right) if questions.rival is None else questions.rival for questions in asked])
        task = torch.repeat_interleave(torch.arange(len(asked)), torch.tensor([len(questions.query) for questions in asked]))
        self.of_task = torch.nn.functional.one_hot(task, len(asked)).float()

    def sums(self, weights: Float[Tensor, "H T S"], hit: bool) -> tuple[Float[Tensor, "H K"], Float[Tensor, "H K"]]:
        """What each head scores in each task, and what it gives to rivals, as many as there are right ones."""
        rows = weights[:, self.query]
        if hit:
            chosen = rows.masked_fill(~self.among, -1).argmax(-1)
            right = self.right.expand(rows.shape).gather(-1, chosen[..., None])[..., 0].float()
        else:
            right = (rows * self.right).sum(-1)
        a_rival = (rows * self.rival).sum(-1) / self.rival.sum(-1).clamp(min=1)
        return right @ self.of_task, (a_rival * self.right.sum(-1)) @ self.of_task


def _stacked(layers: list[Float[Tensor, "H K"]]) -> Float[Tensor, "L h K"]:
    """One tensor, NaN where a layer lacks heads."""
    most = max(len(layer) for layer in layers)
    return torch.stack([torch.cat([layer, layer.new_full((most - len(layer), layer.shape[1]), torch.nan)]) for layer in layers])


def _text(questions: Questions, scores: Float[Tensor, "L H"], rivals: Float[Tensor, "L H"]) -> _Text:
    guesses = {name: float(x.sum()) for name, x in questions.guesses.items()}
    return _Text(scores, None if questions.rival is None else rivals, guesses, len(questions.query))


def _evidence(task: str, texts: list[_Text]) -> Evidence:
    names = sorted({name for text in texts for name in text.guesses})
    guesses = {name: torch.tensor([text.guesses.get(name, 0.0) for text in texts]) for name in names}
    rivals = [text.rival for text in texts if text.rival is not None]
    counts = torch.tensor([float(text.count) for text in texts])
    return Evidence(task, torch.stack([text.scores for text in texts]), torch.stack(rivals) if rivals else None, guesses, counts)

"""Every head of a part answers the questions of a role; what is kept is a sum and a count a text."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headwise.axes import Float, Tensor
from headwise.heads.maps import layer_weights
from headwise.heads.role import Questions, Reading
from headwise.heads.words import joined

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


def gather(model: "Model", readings: Iterable[Reading], hit: bool, part: str | None, tell: Callable[[], None] = lambda: None) -> dict[str, Evidence]:
    """Let every head answer.

    Args:
        hit: whether the largest weight counts, or the weight itself.
        part: which attention of the model.
        tell: called after each text.
    """
    found: dict[str, list[_Text]] = {}
    for reading in readings:
        for questions, text in _answered(model, reading, hit, part):
            found.setdefault(questions.task, []).append(text)
        tell()
    return {task: _evidence(task, texts) for task, texts in found.items()}


def _answered(model: "Model", reading: Reading, hit: bool, part: str | None) -> list[tuple[Questions, _Text]]:
    asked = [questions for questions in reading.questions if len(questions.query)]
    if not asked:
        return []
    run = model.run(reading.what, statistics=(), memory="8GiB")
    layers = (run.statistics_of(part) if part is not None else run.statistics).sizes["layer"]
    answers: list[list[tuple[Tensor, Tensor | None]]] = [[] for _ in asked]
    for layer in range(layers):
        weights = layer_weights(run, layer, part)[0]
        if reading.units is not None:
            weights = joined(weights, reading.units, reading.key_units or reading.units)
        for questions, kept in zip(asked, answers, strict=True):
            kept.append(_answer(weights[:, questions.query], questions, hit))
    return [(questions, _text(questions, kept)) for questions, kept in zip(asked, answers, strict=True)]


def _answer(rows: Float[Tensor, "H n S"], questions: Questions, hit: bool) -> tuple[Float[Tensor, " H"], Float[Tensor, " H"] | None]:
    """What each head scores in all, and what it gives to rivals."""
    rows = rows.float()
    if hit:
        chosen = rows.masked_fill(~questions.among, -1).argmax(-1)
        right = questions.right.expand(rows.shape).gather(-1, chosen[..., None])[..., 0]
        return right.float().sum(-1), None
    score = (rows * questions.right).sum((-1, -2))
    if questions.rival is None:
        return score, None
    a_unit = (rows * questions.rival).sum(-1) / questions.rival.sum(-1).clamp(min=1)
    return score, (a_unit * questions.right.sum(-1)).sum(-1)


def _text(questions: Questions, kept: list[tuple[Tensor, Tensor | None]]) -> _Text:
    heads = max(len(score) for score, _ in kept)

    def stacked(rows: list[Tensor]) -> Tensor:
        return torch.stack([torch.cat([row, row.new_full((heads - len(row),), torch.nan)]) for row in rows])

    rivals = [rival for _, rival in kept if rival is not None]
    guesses = {name: float(x.sum()) for name, x in questions.guesses.items()}
    return _Text(stacked([score for score, _ in kept]), stacked(rivals) if rivals else None, guesses, len(questions.query))


def _evidence(task: str, texts: list[_Text]) -> Evidence:
    names = sorted({name for text in texts for name in text.guesses})
    guesses = {name: torch.tensor([text.guesses.get(name, 0.0) for text in texts]) for name in names}
    rivals = [text.rival for text in texts if text.rival is not None]
    counts = torch.tensor([float(text.count) for text in texts])
    return Evidence(task, torch.stack([text.scores for text in texts]), torch.stack(rivals) if rivals else None, guesses, counts)

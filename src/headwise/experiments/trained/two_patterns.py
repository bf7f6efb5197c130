"""A task that needs two patterns at the same position, one head against two at the same width and the same number of parameters.

Each token is a symbol and a letter. At the last token of a text two answers are asked for: the letter of the token before it, and the letter of the one
earlier token with its own symbol. The block is attention, then two layers with a ReLU, both with a residual: what a layer of a transformer is.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headwise.attention.module import MultiHeadAttention
from headwise.axes import Float, Int, Tensor
from headwise.experiments.trained.train import train_model
from headwise.progress import ProgressCallback, no_progress
from headwise.storage.environment import arithmetic, environment
from headwise.storage.fingerprint import key_of
from headwise.storage.progress_file import ProgressFile

COMMAND = "python -m headwise.experiments.trained two_patterns"
TESTED = 4096  # texts


@dataclass(frozen=True)
class TwoPatternsSettings:
    """Of the task and the training.

    Attributes:
        symbols, letters: how many there are.
        length: tokens of a text.
        rows: texts a batch.
    """

    heads: tuple[int, ...] = (1, 2)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    symbols: int = 24
    letters: int = 8
    length: int = 12
    width: int = 32
    rows: int = 128
    steps: int = 800
    rate: float = 5e-3


@dataclass(frozen=True, eq=False)
class TwoPatternTexts:
    """Texts of the task.

    Attributes:
        match: the earlier token with the last one's symbol.
        before, matched: the two answers.
    """

    symbols: Int[Tensor, "B T"]
    letters: Int[Tensor, "B T"]
    match: Int[Tensor, " B"]

    @property
    def before(self) -> Int[Tensor, " B"]:
        return self.letters[:, -2]

    @property
    def matched(self) -> Int[Tensor, " B"]:
        return self.letters.gather(1, self.match[:, None])[:, 0]


def texts(count: int, settings: TwoPatternsSettings, generator: torch.Generator) -> TwoPatternTexts:
    """Different symbols, but for the last, which is one of the earlier ones; never that of the token before it."""
    symbols = torch.rand(count, settings.symbols, generator=generator).argsort(1)[:, : settings.length]
    letters = torch.randint(settings.letters, (count, settings.length), generator=generator)
    match = torch.randint(settings.length - 2, (count,), generator=generator)
    symbols[:, -1] = symbols.gather(1, match[:, None])[:, 0]
    return TwoPatternTexts(symbols, letters, match)


class TwoPatternModel(nn.Module):
    """Embeddings, one attention, one pair of layers, two readings of the last token."""

    def __init__(self, heads: int, settings: TwoPatternsSettings) -> None:
        super().__init__()
        width = settings.width
        self.symbol, self.letter = nn.Embedding(settings.symbols, width), nn.Embedding(settings.letters, width)
        self.place = nn.Embedding(settings.length, width)
        self.attention = MultiHeadAttention(width, heads, causal=True)
        self.hidden, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.answers = nn.ModuleList([nn.Linear(width, settings.letters) for _ in range(2)])

    def embed(self, asked: TwoPatternTexts) -> Float[Tensor, "B T M"]:
        return self.symbol(asked.symbols) + self.letter(asked.letters) + self.place.weight

    def forward(self, asked: TwoPatternTexts) -> list[Float[Tensor, "B x"]]:
        """Logits of the letter before, and of the matched letter."""
        x = self.embed(asked)
        last = (x + self.attention(x))[:, -1]
        last = last + self.out(torch.relu(self.hidden(last)))
        return [answer(last) for answer in self.answers]


def train(heads: int, seed: int, settings: TwoPatternsSettings, progress: ProgressCallback = no_progress) -> dict[str, Any]:
    """Train one block and see what it can do and where its heads look."""
    torch.manual_seed(seed)
    model, generator = TwoPatternModel(heads, settings), torch.Generator().manual_seed(seed)
    curve = train_model(model, lambda step: _loss(model, texts(settings.rows, settings, generator)), settings.steps, settings.rate, progress)
    every = max(1, settings.steps // 30)
    return {
        "heads": heads,
        "seed": seed,
        "curve": [round(sum(curve[i : i + every]) / len(curve[i : i + every]), 4) for i in range(0, len(curve), every)],
        **found(model, settings),
    }


@torch.no_grad()
def found(model: TwoPatternModel, settings: TwoPatternsSettings) -> dict[str, Any]:
    """On texts that it never saw: the share of right answers of each kind, of both at once, and of each head the mean weight on the two tokens asked about."""
    asked = texts(TESTED, settings, torch.Generator().manual_seed(12345))
    logits = model(asked)
    right = [logit.argmax(-1) == answer for logit, answer in zip(logits, (asked.before, asked.matched), strict=True)]
    weights = model.attention.trace(model.embed(asked)).weights[:, :, -1]  # B H S
    on_match = weights.gather(2, asked.match[:, None, None].expand(-1, weights.shape[1], 1))[..., 0]
    return {
        "before": round(float(right[0].double().mean()), 5),
        "matched": round(float(right[1].double().mean()), 5),
        "both": round(float((right[0] & right[1]).double().mean()), 5),
        "loss": round(float(_loss(model, asked)), 5),
        "weights": [[round(x, 4) for x in (float(weights[:, head, -2].mean()), float(on_match[:, head].mean()))] for head in range(weights.shape[1])],
    }


def _loss(model: TwoPatternModel, asked: TwoPatternTexts) -> Tensor:
    """Nats of both answers."""
    before, matched = model(asked)
    return nn.functional.cross_entropy(before, asked.before) + nn.functional.cross_entropy(matched, asked.matched)


def sweep(state: Path | None = None, settings: TwoPatternsSettings | None = None, progress: ProgressCallback = no_progress) -> dict[str, Any]:
    """Train them all.

    Args:
        state: a file that remembers the trainings that are done.

    Returns:
        `models`: for each number of heads and seed the share of right answers and where heads look; `chance`: of answers of each kind.
    """
    settings = settings or TwoPatternsSettings()
    known = ProgressFile(state, key_of(**environment(), **arithmetic(), sweep="two_patterns", settings=settings), "training")
    wanted = [(heads, seed) for seed in settings.seeds for heads in settings.heads]
    total = len(wanted) * settings.steps
    for place, (heads, seed) in enumerate(wanted):
        name = f"{heads} heads, seed {seed}"
        if name not in known.done:
            begun = place * settings.steps
            known.add(name, train(heads, seed, settings, lambda _, done, __, name=name, begun=begun: progress(name, begun + done, total)))
    parameters = {str(heads): sum(x.numel() for x in TwoPatternModel(heads, settings).parameters()) for heads in settings.heads}
    models = [known.done[f"{heads} heads, seed {seed}"] for heads, seed in wanted]
    return {"command": COMMAND, "settings": asdict(settings), "parameters": parameters, "chance": 1 / settings.letters, "models": models}

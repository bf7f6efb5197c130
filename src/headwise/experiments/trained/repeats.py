"""A small decoder trained on repeated random tokens: the part that is repeated has a length drawn anew each time, or always the same.

With a length that is always the same, looking a fixed way back is as good as looking for what was there before: the negative control of induction.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from headwise.axes import Float, Int, Tensor
from headwise.experiments.trained.train import train_model
from headwise.progress import ProgressCallback, no_progress
from headwise.storage.environment import arithmetic, environment
from headwise.storage.fingerprint import key_of
from headwise.storage.progress_file import ProgressFile

COMMAND = "python -m headwise.experiments.trained repeats"
KINDS = ("drawn", "fixed")
LENGTHS = (7, 9, 10, 12, 14, 17, 20)  # that are tried: no multiple of another's way back
TESTED = 256  # texts of each length


@dataclass(frozen=True)
class RepeatsSettings:
    """Of the training.

    Attributes:
        fixed: the length of the part, where it is always the same.
        shortest, longest: between which it is drawn, where it is drawn.
        length: tokens of a text.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    vocabulary: int = 64
    width: int = 64
    layers: int = 2
    heads: int = 4
    fixed: int = 12
    shortest: int = 6
    longest: int = 24
    length: int = 49
    rows: int = 32
    steps: int = 800
    rate: float = 3e-3


@dataclass(frozen=True, eq=False)
class RepeatTexts:
    """Random tokens in which a part comes again and again.

    Attributes:
        part: its length in each text.
    """

    ids: Int[Tensor, "B T"]
    part: Int[Tensor, " B"]

    @property
    def foretold(self) -> Tensor:
        """Tokens that can be known from what was there before: all behind the first part and one token of the second, [B, T]."""
        return torch.arange(self.ids.shape[1]) > self.part[:, None]


def texts(count: int, part: Int[Tensor, " B"], settings: RepeatsSettings, generator: torch.Generator) -> RepeatTexts:
    """Texts whose repeated part has these lengths; its tokens are all different, so that each says what follows it."""
    order = torch.rand(count, settings.vocabulary, generator=generator).argsort(1)
    places = torch.arange(settings.length) % part[:, None]
    return RepeatTexts(order.gather(1, places), part)


def lengths(kind: str, count: int, settings: RepeatsSettings, generator: torch.Generator) -> Int[Tensor, " B"]:
    """Of the part in each text."""
    if kind == "fixed":
        return torch.full((count,), settings.fixed)
    return torch.randint(settings.shortest, settings.longest + 1, (count,), generator=generator)


def decoder(seed: int, settings: RepeatsSettings) -> LlamaForCausalLM:
    """Untrained."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=settings.vocabulary,
            hidden_size=settings.width,
            intermediate_size=2 * settings.width,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads,
            max_position_embeddings=512,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def train(kind: str, seed: int, settings: RepeatsSettings, progress: ProgressCallback = no_progress) -> LlamaForCausalLM:
    """A decoder trained on parts of drawn lengths, or of a fixed one."""
    model, generator = decoder(seed, settings), torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        asked = texts(settings.rows, lengths(kind, settings.rows, settings, generator), settings, generator)
        return each(model, asked)[asked.foretold[:, 1:]].mean()

    train_model(model, loss, settings.steps, settings.rate, progress)
    return model


def each(model: LlamaForCausalLM, asked: RepeatTexts) -> Float[Tensor, "B t"]:
    """Nats of every token but the first."""
    logits = model(input_ids=asked.ids[:, :-1]).logits
    return nn.functional.cross_entropy(logits.flatten(0, 1), asked.ids[:, 1:].flatten(), reduction="none").view(len(asked.ids), -1)


@torch.no_grad()
def found(model: LlamaForCausalLM, settings: RepeatsSettings) -> list[dict[str, float]]:
    """For each length of the part: the loss on foretold tokens, and of the best heads the weight behind earlier selves, and a fixed way back."""
    import headwise.models.model as models

    rows = []
    for length in LENGTHS:
        asked = texts(TESTED, torch.full((TESTED,), length), settings, torch.Generator().manual_seed(length))
        loss = each(model, asked)[asked.foretold[:, 1:]].mean()
        run = models.Model(model).run(asked.ids[:32], statistics=())
        rows.append({"length": length, "loss": round(float(loss), 4), **_looks(run, length, settings)})
    return rows


def _looks(run: Any, length: int, settings: RepeatsSettings) -> dict[str, float]:
    """The largest mean weight of any head: behind all earlier selves (induction), and where those would be if the part had the fixed length."""
    best = {"induction": 0.0, "fixed_way": 0.0}
    for layer in range(settings.layers):
        for head in range(settings.heads):
            weights = torch.stack([run.weights(layer, head, batch=row) for row in range(8)])
            for name, part in (("induction", length), ("fixed_way", settings.fixed)):
                best[name] = max(best[name], float(weights[:, _behind(part, settings)].sum()) / len(weights) / (settings.length - 1 - settings.longest))
    return {name: round(value, 4) for name, value in best.items()}


def _behind(part: int, settings: RepeatsSettings) -> Tensor:
    """For tokens late in a text, the tokens behind their earlier selves, [T, T], if the part had this length."""
    query, key = torch.arange(settings.length)[:, None], torch.arange(settings.length)
    back = query - key
    return (query > settings.longest) & (back > 0) & ((back + 1) % part == 0)


def sweep(state: Path | None = None, settings: RepeatsSettings | None = None, progress: ProgressCallback = no_progress) -> dict[str, Any]:
    """Train them all.

    Args:
        state: a file that remembers the trainings that are done.

    Returns:
        `models`: of each `kind` and seed, by length of the part: the `loss` on foretold tokens, the best head's `induction` weight, and the best head's
        weight a `fixed_way` back. `chance`: the loss of guessing.
    """
    settings = settings or RepeatsSettings()
    known = ProgressFile(state, key_of(**environment(), **arithmetic(), sweep="repeats", settings=settings), "training")
    wanted = [(kind, seed) for seed in settings.seeds for kind in KINDS]
    total = len(wanted) * settings.steps
    for place, (kind, seed) in enumerate(wanted):
        name, begun = f"{kind} length, seed {seed}", place * settings.steps
        if name not in known.done:
            model = train(kind, seed, settings, lambda _, done, __, name=name, begun=begun: progress(name, begun + done, total))
            known.add(name, {"kind": kind, "seed": seed, "by_length": found(model, settings)})
    models = [known.done[f"{kind} length, seed {seed}"] for kind, seed in wanted]
    return {"command": COMMAND, "settings": asdict(settings), "chance": round(float(torch.tensor(settings.vocabulary).log()), 4), "models": models}

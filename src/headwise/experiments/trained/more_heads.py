"""The same small decoder trained with different numbers of heads at the same width, and what is left of it when heads are removed at random.

Width, layers, parameters, text, batches and steps are the same for all; only the number of heads that the width is split over differs. Models of one seed
start from the same numbers and see the same batches.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from headwise.analysis.ablation.eval_text import Evaluator
from headwise.analysis.ablation.exact_ablation import joint_ablation_losses, zero_ablation
from headwise.axes import Bool, Int, Tensor
from headwise.experiments import bible_text
from headwise.experiments.trained.character_text import CharacterText, character_text
from headwise.experiments.trained.train import train_model
from headwise.models.model import Model
from headwise.progress import ProgressCallback, no_progress
from headwise.storage.environment import arithmetic, environment
from headwise.storage.fingerprint import key_of
from headwise.storage.progress_file import ProgressFile

COMMAND = "python -m headwise.experiments.trained more_heads"
HELD, REMOVED = 512, 16  # windows of held-out text: for the loss, and for the loss with heads removed
SHARES, DRAWS = (0.25, 0.5, 0.75), 20
ROUNDS = 9  # of timing


@dataclass(frozen=True)
class MoreHeadsSettings:
    """Of the sweep.

    Attributes:
        length: letters that the model sees at once.
        rows: pieces of text a batch.
        spread: of the numbers that weights start from.
    """

    heads: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    seeds: tuple[int, ...] = (0, 1, 2)
    width: int = 64
    layers: int = 2
    length: int = 64
    rows: int = 16
    steps: int = 800
    rate: float = 8e-3
    spread: float = 0.1


def sweep(
    state: Path | None = None, settings: MoreHeadsSettings | None = None, text: str | None = None, progress: ProgressCallback = no_progress
) -> dict[str, Any]:
    """Train them all.

    Args:
        state: a file that remembers the trainings that are done: the same call goes on after it was stopped.
        text: a chapter a line; the passages' whole text when absent.

    Returns:
        `models`: for each number of heads and seed the held-out `loss` (nats a letter), the `removed` losses by share, and CPU `seconds`; `cost`: the CPU
        time of a step against that with one head.
    """
    settings = settings or MoreHeadsSettings()
    text = bible_text.whole_text() if text is None else text
    data = character_text(text)
    known = ProgressFile(state, key_of(**environment(), **arithmetic(), sweep="more_heads", settings=settings, text=text), "training")
    wanted = [(heads, seed) for seed in settings.seeds for heads in settings.heads]
    total = len(wanted) * settings.steps
    for place, (heads, seed) in enumerate(wanted):
        name = f"{heads} heads, seed {seed}"
        if name in known.done:
            continue
        begun = place * settings.steps
        known.add(name, one(heads, seed, settings, data, lambda _, done, __, name=name, begun=begun: progress(name, begun + done, total)))
    models = [known.done[f"{heads} heads, seed {seed}"] for heads, seed in wanted]
    return {
        "command": COMMAND,
        "text": bible_text.NAME,
        "settings": asdict(settings),
        "parameters": sum(x.numel() for x in decoder(1, 0, settings, len(data.alphabet)).parameters()),
        "letters": len(data.alphabet),
        "cost": cost(settings, data),
        "models": models,
    }


def decoder(heads: int, seed: int, settings: MoreHeadsSettings, letters: int) -> GPT2LMHeadModel:
    """Untrained. How its width is split changes none of its tensors, so that one seed gives the same numbers for any number of heads."""
    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=letters,
            n_positions=settings.length,
            n_embd=settings.width,
            n_head=heads,
            n_layer=settings.layers,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            initializer_range=settings.spread,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def one(heads: int, seed: int, settings: MoreHeadsSettings, data: CharacterText, progress: ProgressCallback = no_progress) -> dict[str, Any]:
    """Train one model and see what it lost and what it loses without some of its heads."""
    model = decoder(heads, seed, settings, len(data.alphabet))
    generator = torch.Generator().manual_seed(seed)
    start = process_time()
    curve = train_model(model, lambda step: _loss(model, data.batch(settings.rows, settings.length, generator)), settings.steps, settings.rate, progress)
    seconds = process_time() - start
    every = max(1, settings.steps // 12)
    return {
        "heads": heads,
        "seed": seed,
        "loss": round(held_loss(model, data, settings.length), 5),
        "seconds": round(seconds, 1),
        "curve": [round(sum(curve[i : i + every]) / len(curve[i : i + every]), 4) for i in range(0, len(curve), every)],
        "removed": removed(model, heads, data, settings, seed),
    }


@torch.no_grad()
def held_loss(model: GPT2LMHeadModel, data: CharacterText, length: int) -> float:
    """Nats a letter, on text that it never saw."""
    batches = data.windows(HELD, length).split(128)
    return float(sum(_loss(model, batch) * len(batch) for batch in batches)) / HELD


def removed(model: GPT2LMHeadModel, heads: int, data: CharacterText, settings: MoreHeadsSettings, seed: int) -> list[dict[str, Any]]:
    """The loss with a share of all heads removed at random, several times; shares that make no whole number of heads are left out."""
    passage = Evaluator(Model(model), "next").open(data.windows(REMOVED, settings.length))
    total = heads * settings.layers
    shares = [share for share in SHARES if (share * total).is_integer() and 0 < share * total < total]
    plans = [plan for share in shares for plan in at_random(round(share * total), settings.layers, heads, DRAWS, seed)]
    losses = joint_ablation_losses(passage, torch.stack(plans), zero_ablation).unflatten(0, (len(shares), DRAWS))
    return [{"share": share, "losses": [round(loss - passage.base, 4) for loss in row.tolist()]} for share, row in zip(shares, losses, strict=True)]


def at_random(count: int, layers: int, heads: int, draws: int, seed: int) -> list[Bool[Tensor, "L H"]]:
    """So many heads of all, drawn several times."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(draws):
        plan = torch.zeros(layers * heads, dtype=torch.bool)
        plan[torch.randperm(layers * heads, generator=generator)[:count]] = True
        found.append(plan.view(layers, heads))
    return found


def cost(settings: MoreHeadsSettings, data: CharacterText) -> dict[str, float]:
    """CPU time of a step by number of heads, against one head: the median of ratios of steps made in turn."""
    models = {heads: decoder(heads, 0, settings, len(data.alphabet)) for heads in settings.heads}
    batch = data.batch(settings.rows, settings.length, torch.Generator().manual_seed(0))
    ratios: dict[int, list[float]] = {heads: [] for heads in models}
    for _ in range(ROUNDS):
        taken = {heads: _seconds(model, batch) for heads, model in models.items()}
        for heads, seconds in taken.items():
            ratios[heads].append(seconds / taken[settings.heads[0]])
    return {str(heads): round(sorted(found)[len(found) // 2], 3) for heads, found in ratios.items()}


def _seconds(model: GPT2LMHeadModel, batch: Int[Tensor, "B T"]) -> float:
    start = process_time()
    _loss(model, batch).backward()
    model.zero_grad()
    return process_time() - start


def _loss(model: GPT2LMHeadModel, batch: Int[Tensor, "B T"]) -> Tensor:
    """Mean over all letters but the first."""
    logits = model(input_ids=batch[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

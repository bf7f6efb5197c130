"""`hw.rank`: how much rests on each head."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.ablation.eval_text import blank, check_texts, loss_name
from headwise.analysis.ablation.exact_ablation import ABLATIONS
from headwise.analysis.ablation.patching import Metric
from headwise.analysis.ablation.work_units import Plan, Result, Unit, Worker
from headwise.analysis.intervals import Interval, bootstrap
from headwise.axes import Float, Tensor
from headwise.deprecation import renamed_parameters
from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.models.runs.places import Place
from headwise.progress import ProgressCallback, no_progress, without_stage
from headwise.storage.environment import arithmetic, environment
from headwise.storage.fingerprint import Key, key_of
from headwise.storage.progress_file import ProgressFile

if TYPE_CHECKING:
    import xarray

    from headwise.models.model import Model

METHODS = {
    "ablation": "by how much the loss grows when the head is silenced; exact",
    "gradient": "by how much the loss would grow at the rate at which it begins to when the head is turned down; one backward pass",
    "write": "how much of what all heads of the layer add is this head's; mean over tokens",
    "patch": "how much of the way from the corrupt to the clean prompt's answer this head alone leads",
}


@renamed_parameters(tell=("progress", without_stage))
def rank(
    model: "Model",
    texts: Any,
    method: str = "ablation",
    *,
    ablation: str = "zero",
    loss: str | None = None,
    metric: Metric | None = None,
    part: str | None = None,
    state: str | Path | None = None,
    ray: str | None = None,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> "xarray.Dataset":
    """Rank heads by how much rests on them.

    Args:
        model: as `open_model` gives it.
        texts: a text, or a list of texts or of anything that `model.run` takes; for "patch" a list of pairs (clean, corrupt).
        method: "ablation": exact, a head of layer l costs the layers from W_O of l on. "gradient": first order, about three passes a text.
            "write": what heads add. "patch": two prompts, which heads carry the difference.
        ablation: what a silenced head says: "zero", its "mean" over all texts, or what it says in the next text ("resample").
        loss: "next", "masked", "kl" or "cosine"; see `headwise.analysis.ablation.losses`. The model's own when absent.
        metric: for "patch": a function of the model's outputs (a dict of tensors) to a number a batch row. The logit of clean's answer less that of
            corrupt's when absent.
        part: which attention of the model, where it has several.
        state: a file that records what is done, so that stopped work can be resumed. It is refused when anything that the numbers depend on has
            changed since: model, texts, any argument, versions, number of threads.
        ray: address of a Ray cluster over which the work is spread; "local" starts one.
        seed: of what is drawn at random.
        progress: called as (stage, done, total) while it works.

    Returns:
        A Dataset over (layer, head): `effect` with `low` and `high` (95 %, bootstrap over texts; NaN for one text), `importance`, by which heads are
        ranked (the effect; for "gradient" the mean of its size in each text), and `rank`, from 1. `attrs` say how it was measured; `base` is the loss of the
        unchanged model, `texts` and `tokens` how much was read.

    Raises:
        ArgumentError: no such method, ablation, loss or part; texts that do not fit; a state file of other work.
        FingerprintError: with a state file, a metric or model whose content cannot be determined.
        WritesRefused: what a head writes cannot be told apart in this model.

    Example:
        >>> from headwise.models.loading.open_model import open_model
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> sizes = {"hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 1, "num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": 20}
        >>> found = rank(open_model(LlamaForCausalLM(LlamaConfig(**sizes))), torch.tensor([3, 1, 4, 1, 5]))
        >>> found.effect.shape, sorted(found["rank"].values.ravel().tolist())
        ((2, 3), [1, 2, 3, 4, 5, 6])
    """
    found = _checked(texts, method)
    plan = Plan(method, _ablation(ablation, found), _loss(model, loss, method), metric, part, seed)
    worker = Worker(model, found, plan)
    places, units = worker.places(), worker.units()
    progress_file = ProgressFile(None if state is None else Path(state), {} if state is None else _key(model, found, plan, ray), "ranking")
    done = {unit: Result(**progress_file.done[_name(unit)]) for unit in units if _name(unit) in progress_file.done}
    numbers = count(len(done) + 1)
    progress("ranking heads", len(done), len(units))
    for unit, result in _work(worker, model, [unit for unit in units if unit not in done], ray):
        done[unit] = result
        progress_file.add(_name(unit), asdict(result))
        progress("ranking heads", next(numbers), len(units))
    return _dataset(model, places, plan, done, len(found))


def _key(model: "Model", texts: Sequence[Any], plan: Plan, ray: str | None) -> Key:
    """All that a ranking depends on. Workers of a cluster have one thread each."""
    numerics = arithmetic() if ray is None else {**arithmetic(), "threads": "1"}
    return key_of(**environment(), **numerics, model=model.hf, tokenizer=model.tokenizer, texts=texts, **vars(plan))


def _name(unit: Unit) -> str:
    return f"text {unit[0]}, layer {unit[1]}"


def _work(worker: Worker, model: "Model", units: Sequence[Unit], ray: str | None) -> Iterator[tuple[Unit, Result]]:
    if ray is None:
        yield from ((unit, worker.work(unit)) for unit in units)
        return
    from headwise.analysis.ablation.ray_backend import spread

    yield from spread(model, worker.texts, worker.plan, units, ray)


def _checked(texts: Any, method: str) -> list[Any]:
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}, got {method!r}. Correct the name.")
    if method != "patch":
        return check_texts(texts)
    pairs = [texts] if isinstance(texts, tuple) else texts
    if not isinstance(pairs, Sequence) or isinstance(pairs, str) or not pairs or any(not isinstance(one, Sequence) or len(one) != 2 for one in pairs):
        raise ArgumentTypeError(f"texts must be pairs (clean, corrupt) for method 'patch', got {type(texts).__name__}. Pass [(clean, corrupt)].")
    return [tuple(one) for one in pairs]


def _ablation(name: str, texts: Sequence[Any]) -> str:
    if name not in ABLATIONS:
        raise ArgumentError(f"ablation must be one of {', '.join(ABLATIONS)}, got {name!r}. Correct the name.")
    if name == "resample" and len(texts) < 2:
        raise ArgumentError("ablation 'resample' must have another text to take words from, got one text. Give several.")
    return name


def _loss(model: "Model", asked: str | None, method: str) -> str:
    """The loss; patching and writes have their own measure and take what the model is sure to have."""
    if method in ("patch", "write") and asked is not None:
        raise ArgumentError(f"loss must be left out for method {method!r}, got {asked!r}. It measures something else.")
    if method in ("patch", "write"):
        return "cosine"
    name = loss_name(model, asked)
    if method == "gradient" and name in ("kl", "cosine"):
        raise ArgumentError(f"loss of method 'gradient' must have a slope, got {name!r}, which is at its lowest where nothing is changed. Use 'ablation'.")
    return name


def _dataset(model: "Model", places: Sequence[Place], plan: Plan, done: Mapping[Unit, Result], texts: int) -> "xarray.Dataset":
    import xarray

    effects = torch.stack([blank(places)] * texts)
    tokens = torch.zeros(texts, dtype=torch.float64)
    base = torch.zeros(texts, dtype=torch.float64)
    for (text, layer), result in done.items():
        for row, numbers in enumerate(result.effects, start=max(layer, 0)):
            effects[text, row, : len(numbers)] = torch.tensor(numbers, dtype=torch.float64)
        tokens[text], base[text] = result.tokens, result.base
    counts = torch.ones_like(tokens) if plan.method == "patch" else tokens
    weight = counts[:, None, None]
    found = bootstrap(effects * weight, counts, plan.seed)
    importance = (effects.abs() * weight).sum(0) / counts.sum() if plan.method == "gradient" else found.mean
    interval = found if texts > 1 else Interval(found.mean, *[torch.full_like(found.mean, torch.nan)] * 3)
    by_head = ("layer", "head")
    variables = {"effect": interval.mean, "low": interval.low, "high": interval.high, "importance": importance, "rank": _ranks(importance)}
    coords = {"layer": range(len(places)), "head": range(effects.shape[2]), "layer_name": ("layer", [place.module for place in places])}
    coords["key_heads"] = ("layer", [place.key_heads for place in places])
    measured = {"model": model.name, "part": places[0].part, "method": plan.method, "meaning": METHODS[plan.method]}
    measured |= {"ablation": plan.ablation} if plan.method == "ablation" else {}
    measured |= {"loss": plan.loss, "base": float((base * tokens).sum() / tokens.sum())} if plan.method in ("ablation", "gradient") else {}
    measured |= {"texts": texts, "tokens": int(tokens.sum()) if plan.method != "patch" else 0, "notes": [model.note] if model.note else []}
    return xarray.Dataset({name: (by_head, x.numpy()) for name, x in variables.items()}, coords, measured)


def _ranks(importance: Float[Tensor, "L H"]) -> Tensor:
    """1 for the head on which most rests; 0 where a layer lacks the head."""
    order = importance.flatten().nan_to_num(-torch.inf).argsort(descending=True, stable=True)
    places = torch.empty_like(order)
    places[order] = torch.arange(1, len(order) + 1)
    return places.view_as(importance).masked_fill(importance.isnan(), 0)

"""`hw.resilience`: what happens without heads, one by one and many at once, and who carries on.

    direct  what the head adds to the centred logit of the true next token with nothing in between
    total   by how much that logit falls when the head is silenced: exact
    repair  direct − total: what others make up for; each later head's part of it is the change of its own direct effect

The centred logit is the token's logit less the mean over the vocabulary. The size by which the last norm divides is that of the
unchanged pass in all direct effects, in `total` it is as it comes.

References: McGrath et al. 2023, "The Hydra Effect"; Rushing and Nanda 2024 on self-repair; Michel et al. 2019, figure 2 on curves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import einsum

from headwise.analysis.ablation.direct_effect import Readout, readout
from headwise.analysis.ablation.eval_text import EvalText, Evaluator, check_texts, loss_name
from headwise.analysis.ablation.exact_ablation import joint_ablation_losses, zero_ablation
from headwise.analysis.ablation.losses import NO_LABEL, next_tokens, real_tokens
from headwise.analysis.ablation.partial_forward import replace_z
from headwise.analysis.ablation.rank import rank
from headwise.analysis.intervals import Interval, bootstrap
from headwise.axes import Bool, Float, Int, Tensor
from headwise.deprecation import renamed_parameters
from headwise.errors import ArgumentError, WritesRefused
from headwise.models.layout import w_o_by_head
from headwise.progress import ProgressCallback, no_progress, without_stage

if TYPE_CHECKING:
    import xarray

    from headwise.models.model import Model

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
ORDERS = ("best first", "worst first", "random")
DRAWS = 5


@dataclass(frozen=True, eq=False)
class SelfRepair:
    """What silencing each head of one text does: sums over tokens of centred logits.

    Attributes:
        makes_up: by how much each other head's direct effect grows; by silenced head, then by the other.
    """

    direct: Float[Tensor, "L H"]
    total: Float[Tensor, "L H"]
    makes_up: Float[Tensor, "N N"]
    tokens: int


@renamed_parameters(tell=("progress", without_stage))
def resilience(
    model: "Model",
    texts: Any,
    *,
    loss: str | None = None,
    by: str = "ablation",
    shares: Sequence[float] = SHARES,
    draws: int = DRAWS,
    part: str | None = None,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> "xarray.Dataset":
    """Silence heads one by one, and many at once.

    Args:
        model: as `open_model` gives it.
        texts: a text, a list of texts or of anything that `model.run` takes.
        loss: "next", "masked", "kl" or "cosine"; the model's own when absent.
        by: how heads are put in order: "ablation", "gradient" or "write".
        shares: of the heads that are silenced at once, from 0 to 1.
        draws: orders at random.
        part: which attention of the model, where it has several.
        seed: of what is drawn at random.
        progress: called as (stage, done, total) while it works.

    Returns:
        A Dataset. By order ("best first", "worst first", "random") and share: `loss` with `loss_low`, `loss_high` (over texts; for "random" over orders).
        For decoders by layer and head `direct`, `total` and `repair` with `_low` and `_high`, and `makes_up` by silenced head and other head, both named
        "layer.head". Where a model has no logits that heads write to directly these are left out, and `attrs["refusal"]` says why.

    Raises:
        ArgumentError: shares that are none, or what `rank` refuses.
    """
    import xarray

    if not shares or any(not 0 <= share <= 1 for share in shares):
        raise ArgumentError(f"shares must lie within 0..1, got {list(shares)}. Pass (0, 0.1, 0.5), say.")
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise ArgumentError(f"draws must be a whole number from 1, got {draws!r}. Pass 5, say.")
    found = check_texts(texts)
    opener = Evaluator(model, loss_name(model, loss), part, seed)
    order = _order(rank(model, found, by, loss=None if by == "write" else opener.loss, part=part, seed=seed)["importance"].values)
    plans = _plans(order, shares, draws, seed)
    curves, repairs, tokens, refusal = [], [], [], ""
    for number, text in enumerate(found):
        passage = opener.open(text)
        opener.learn(passage)
        tokens.append(float(passage.loss.tokens))
        curves.append(joint_ablation_losses(passage, plans.flatten(0, 1), zero_ablation).unflatten(0, plans.shape[:2]))
        try:
            repairs += [] if refusal else [self_repair(passage)]
        except WritesRefused as error:
            refusal = str(error)
        progress("ablating heads", number + 1, len(found))
    dataset = _curve(torch.stack(curves), torch.tensor(tokens), shares, seed, draws)
    dataset = dataset if refusal else xarray.merge([dataset, _repair(passage, repairs, seed)])
    told = {"model": model.name, "part": passage.places[0].part, "loss": opener.loss, "by": by, "texts": len(found), "refusal": refusal}
    return dataset.assign_attrs(told)


def self_repair(passage: EvalText, chosen: Bool[Tensor, "L H"] | None = None) -> SelfRepair:
    """Silence every head of a text, one at a time, and look at what the others do.

    Args:
        chosen: the heads that are silenced, where not all are; the total of others is NaN.

    Raises:
        WritesRefused: heads do not write to logits directly.
    """
    forward, read = passage.forward, readout(passage.forward)
    labels = next_tokens(forward, real_tokens(forward, forward.cache.outputs["logits"]))
    asked = labels != NO_LABEL
    read, labels = _centred(read), labels.clamp(min=0)
    rows = [_directions(passage, read, index, labels) * asked[..., None, None] for index in range(len(passage.places))]
    own = [einsum("bthe,bthe->h", forward.cache.wo_inputs[place.index].float(), row) for place, row in zip(passage.places, rows, strict=True)]
    start = np.cumsum([0, *(place.heads for place in passage.places)])
    total, makes_up = [], torch.zeros(int(start[-1]), int(start[-1]))
    final = _logit(forward.cache.outputs["logits"], read, labels, asked, 1)
    for layer, place in enumerate(passage.places):
        fallen = torch.full((place.heads,), torch.nan, device=own[layer].device)
        wanted = torch.arange(place.heads) if chosen is None else chosen[layer, : place.heads].nonzero()[:, 0]
        for some in wanted.split(passage.at_once) if len(wanted) else ():
            heard, logits = _without(passage, layer, some, rows)
            fallen[some] = final - _logit(logits, read, labels, asked, len(some))
            for later, sums in heard.items():
                makes_up[start[layer] + some, start[later] : start[later + 1]] = sums - own[later]
        total.append(fallen)
    return SelfRepair(_padded(own), _padded(total), makes_up, int(asked.sum()))


def _centred(read: Readout) -> Readout:
    """The same for logits less their mean over the vocabulary."""
    bias = None if read.bias is None else read.bias - read.bias.mean()
    return replace(read, unembedding=read.unembedding - read.unembedding.mean(0), bias=bias)


def _directions(passage: EvalText, read: Readout, index: int, chosen: Int[Tensor, "B T"]) -> Float[Tensor, "B T H E"]:
    """What a head's words are multiplied with to give its direct effect on the chosen token's logit."""
    place, session = passage.places[index], passage.forward.session
    blocks = w_o_by_head(session.module(session.layout.sites[place.index].output.module), place.heads).float()
    return einsum("hem,btm->bthe", blocks, read.rows(chosen))


@torch.no_grad()
def _without(passage: EvalText, layer: int, some: Int[Tensor, " n"], rows: Sequence[Tensor]) -> tuple[dict[int, Float[Tensor, "n H"]], Tensor]:
    """What later heads add directly when each of these heads is silenced, and what the last map reads then."""
    places = {place.index: number for number, place in enumerate(passage.places)}
    heard: dict[int, Tensor] = {}
    silenced = torch.zeros(len(some), passage.places[layer].heads, dtype=torch.bool)
    silenced[range(len(some)), some] = True

    def change(call: int, read: Tensor) -> Tensor:
        if places[call] == layer:
            return replace_z(silenced, zero_ablation(passage, call), read)
        copies = read.unflatten(0, (len(some), -1)).float()
        heard[places[call]] = einsum("nbthe,bthe->nh", copies, rows[places[call]])
        return read

    outputs = passage.forward.outputs([place.index for place in passage.places[layer:]], change, len(some))
    return heard, outputs["logits"]


@torch.no_grad()
def _logit(final: Tensor, read: Readout, chosen: Int[Tensor, "B T"], asked: Bool[Tensor, "B T"], times: int) -> Float[Tensor, " N"]:
    """The sum of the chosen tokens' centred logits, from what the last map reads."""
    copies = final.unflatten(0, (times, -1)).float()
    found = einsum("nbtm,btm->nbt", copies, read.unembedding[chosen])
    return (found * asked).sum((1, 2))


def _padded(rows: Sequence[Tensor]) -> Float[Tensor, "L H"]:
    most = max(len(row) for row in rows)
    return torch.stack([torch.cat([row.double(), torch.full((most - len(row),), torch.nan, dtype=torch.float64)]) for row in rows])


def _order(importance: np.ndarray) -> Int[Tensor, "N two"]:
    """The heads that there are, the most important one first."""
    places = torch.from_numpy(np.argwhere(~np.isnan(importance)))
    sizes = torch.from_numpy(importance)[places[:, 0], places[:, 1]]
    return places[sizes.argsort(descending=True)]


def _plans(order: Int[Tensor, "N two"], shares: Sequence[float], draws: int, seed: int) -> Bool[Tensor, "K S L H"]:
    """Which heads are silenced: best first, worst first, then the orders at random; by share."""
    generator = torch.Generator().manual_seed(seed)
    orders = [order, order.flip(0), *(order[torch.randperm(len(order), generator=generator)] for _ in range(draws))]
    found = torch.zeros(len(orders), len(shares), int(order[:, 0].max()) + 1, int(order[:, 1].max()) + 1, dtype=torch.bool)
    for k, one in enumerate(orders):
        for s, share in enumerate(shares):
            gone = one[: round(share * len(order))]
            found[k, s, gone[:, 0], gone[:, 1]] = True
    return found


def _curve(losses: Float[Tensor, "n K S"], tokens: Float[Tensor, " n"], shares: Sequence[float], seed: int, draws: int) -> "xarray.Dataset":
    import xarray

    over_texts = bootstrap(losses * tokens[:, None, None], tokens, seed)
    random = over_texts.mean[2:]
    ends = torch.quantile(random, torch.tensor([0.025, 0.975], dtype=random.dtype), dim=0)
    rows = [(over_texts.mean[k], over_texts.low[k], over_texts.high[k]) for k in (0, 1)] + [(random.mean(0), ends[0], ends[1])]
    variables = {name: (("order", "share"), torch.stack([row[i] for row in rows]).numpy()) for i, name in enumerate(("loss", "loss_low", "loss_high"))}
    return xarray.Dataset(variables, {"order": list(ORDERS), "share": list(shares)}, {"draws": draws})


def _repair(passage: EvalText, repairs: Sequence[SelfRepair], seed: int) -> "xarray.Dataset":
    import xarray

    tokens = torch.tensor([float(repair.tokens) for repair in repairs])
    measured: dict[str, Tensor] = {name: torch.stack([getattr(repair, name) for repair in repairs]) for name in ("direct", "total")}
    measured["repair"] = measured["direct"] - measured["total"]
    variables = {}
    for name, sums in measured.items():
        variables |= _with_ends(name, bootstrap(sums, tokens, seed))
    names = [f"{layer}.{head}" for layer, place in enumerate(passage.places) for head in range(place.heads)]
    makes_up = torch.stack([repair.makes_up for repair in repairs]).sum(0) / tokens.sum()
    variables["makes_up"] = (("silenced", "other"), makes_up.numpy())
    coords = {"layer": range(len(passage.places)), "head": range(measured["direct"].shape[2]), "silenced": names, "other": names}
    return xarray.Dataset(variables, coords)


def _with_ends(name: str, found: Interval) -> dict[str, Any]:
    return {key: (("layer", "head"), x.numpy()) for key, x in ((name, found.mean), (f"{name}_low", found.low), (f"{name}_high", found.high))}

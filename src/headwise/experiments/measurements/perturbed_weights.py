"""How far one head's weights can be moved while what the model gives stays.

    z' = w'·v   in place of   z = w·v,   before W_O; all else follows as the model has it

Whatever weights are tried, what they do is measured on the model itself, exactly. The search only proposes: it moves weights as far as it can (Jensen–Shannon
divergence, Adam on logits) while the head's own write stays near, by several prices on the latter. What it finds is a lower end of how far they can be moved.

References: Jain and Wallace 2019, section 4.2 (permuted and adversarial weights); Wiegreffe and Pinter 2019, section 3.2 (uniform weights).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

import torch

from headwise.attention.weights import masked_scores, weights
from headwise.axes import Bool, Float, Tensor
from headwise.errors import WritesRefused
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.layout import w_o_by_head

if TYPE_CHECKING:
    from headwise.analysis.ablation.eval_text import EvalText
    from headwise.models.runs.places import Place

PRICES = (3.0, 30.0, 300.0, 3000.0, 30000.0)  # of the write's squared change, in units of the write's own square
STEPS, PACE, NOISE = 150, 0.2, 0.3  # of the search; it begins near uniform weights, at random
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class PerturbationResult:
    """What other weights of some heads of one layer do, by head: numbers of one text.

    Attributes:
        silenced: how far the model's output moves when the head says nothing: KL or 1 − cosine, mean over tokens.
        permuted: when each row's weights are permuted among the keys that it sees.
        uniform: when all these keys get the same weight.
        far: the largest Jensen–Shannon divergence, as a share of log 2, mean over rows, that was found among weights that move the output within `within`.
        varied: total variation of those weights.
    """

    silenced: Float[Tensor, " n"]
    permuted: Float[Tensor, " n"]
    uniform: Float[Tensor, " n"]
    far: Float[Tensor, " n"]
    varied: Float[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class HeadAttention:
    """What some heads of a layer do in one text."""

    weights: Float[Tensor, "n T S"]
    visible: Bool[Tensor, "n T S"]
    values: Float[Tensor, "n S E"]
    root: Float[Tensor, "n E E"]  # |z·root| is the length of what is written of z


def perturb_weights(passage: "EvalText", place: "Place", heads: Sequence[int], within: float, part_of: float, seed: int = 0) -> PerturbationResult:
    """Give heads of one layer other weights, one head at a time.

    Args:
        passage: with a loss that is 0 where nothing is changed ("kl", "cosine").
        within: how far the output may move while it counts as staying.
        part_of: likewise, as a part of what silencing the head does: the smaller of the two holds.

    Raises:
        WritesRefused: something comes between what the heads say and W_O.
    """
    found = attention_of(passage, place, heads)
    tried = {"uniform": uniform(found), "permuted": permuted(found, seed)}
    tried |= {f"price {price:g}": other for price, other in zip(PRICES, searched(found, PRICES, seed), strict=True)}
    silenced = effects(passage, place, heads, torch.zeros_like(found.values[:, :1]).expand(-1, found.weights.shape[1], -1))
    does = {name: effects(passage, place, heads, other @ found.values) for name, other in tried.items()}
    bar = (part_of * silenced).clamp(max=within)
    far, varied = _farthest(found, tried, does, bar)
    return PerturbationResult(silenced, does["permuted"], does["uniform"], far, varied)


def _farthest(found: HeadAttention, tried: Mapping[str, Tensor], does: Mapping[str, Tensor], bar: Float[Tensor, " n"]) -> tuple[Tensor, Tensor]:
    """Of the weights that keep the output, those that were moved most."""
    far = varied = torch.zeros(len(bar), dtype=torch.float64)
    for name, other in tried.items():
        away, apart = divergence(found, other), variation(found, other)
        better = (does[name] <= bar) & (away > far)
        far, varied = torch.where(better, away, far), torch.where(better, apart, varied)
    return far, varied


def attention_of(passage: "EvalText", place: "Place", heads: Sequence[int]) -> HeadAttention:
    """Weights, what may be seen, and values of some heads of the first batch row.

    Raises:
        WritesRefused: something comes between what they say and W_O.
    """
    session = passage.forward.session
    output = session.layout.sites[place.index].output
    if output is None or not output.exact:
        raise WritesRefused(f"what heads of {place.module} say must reach W_O as it is, got something in between (a gate?). Its weights cannot be moved so.")
    heard: list[AttentionRecord] = []
    session.rerun(heard.append, [place.index])
    asked, lse, some = heard[0].request, heard[0].attended.lse, list(heads)
    whole = slice(0, asked.query.shape[2]), slice(0, asked.key.shape[2])
    every = weights(asked.query, asked.key, lse, asked.call, *whole)[0, some].float()
    visible = masked_scores(asked.query, asked.key, asked.call, *whole, lse.dtype)[0, some] > -torch.inf
    values = asked.value[0].float()[[head * asked.value.shape[1] // place.heads for head in some]]
    blocks = w_o_by_head(session.module(output.module), place.heads).float()[some]
    return HeadAttention(every, visible, values, _root(blocks))


def _root(blocks: Float[Tensor, "n E M"]) -> Float[Tensor, "n E E"]:
    """R with R·Rᵀ = W_O·W_Oᵀ."""
    lengths, vectors = torch.linalg.eigh((blocks @ blocks.mT).double())
    return (vectors * lengths.clamp(min=0).sqrt()[:, None]).float()


def uniform(found: HeadAttention) -> Float[Tensor, "n T S"]:
    """The same weight for every key that a row sees; together what the row had."""
    seen = found.visible.float()
    return found.weights.sum(-1, keepdim=True) * seen / seen.sum(-1, keepdim=True).clamp(min=1)


def permuted(found: HeadAttention, seed: int) -> Float[Tensor, "n T S"]:
    """Each row's weights, shuffled among the keys that it sees."""
    draws = torch.rand(found.weights.shape, generator=torch.Generator().manual_seed(seed)).to(found.weights.device)
    order = draws.masked_fill(~found.visible, 2.0).argsort(-1)  # those that are seen first, at random
    places = found.visible.float().argsort(dim=-1, descending=True, stable=True)  # likewise, in their order
    return torch.zeros_like(found.weights).scatter(-1, places, found.weights.gather(-1, order)).masked_fill(~found.visible, 0)


def searched(found: HeadAttention, prices: Sequence[float], seed: int = 0) -> Float[Tensor, "k n T S"]:
    """Weights as far from a head's own as can be found while its write stays near: one of each price."""
    own, mass = found.weights, found.weights.sum(-1, keepdim=True)
    price = torch.tensor(prices, device=own.device)[:, None, None]
    project = found.values @ found.root
    size = (own @ project).square().sum(-1).mean(-1, keepdim=True).clamp(min=TINY)
    hidden = torch.zeros_like(own).masked_fill(~found.visible & found.visible.any(-1, keepdim=True), -torch.inf)
    start = torch.randn(len(prices), *own.shape, generator=torch.Generator().manual_seed(seed)) * NOISE
    logits = start.to(own.device).requires_grad_()
    walk = torch.optim.Adam([logits], lr=PACE)
    with torch.enable_grad():
        for _ in range(STEPS):
            other = (logits + hidden).softmax(-1) * mass
            change = ((other - own) @ project).square().sum(-1) / size
            goal = (price * change - _jensen_shannon(own, other) / log(2)).sum()
            walk.zero_grad()
            goal.backward()
            walk.step()
    return ((logits.detach() + hidden).softmax(-1) * mass).masked_fill(~found.visible, 0)


def divergence(found: HeadAttention, other: Float[Tensor, "n T S"]) -> Float[Tensor, " n"]:
    """Jensen–Shannon divergence as a share of log 2, mean over the rows that see several keys."""
    return _over_rows(_jensen_shannon(found.weights.double(), other.double()) / log(2), found)


def variation(found: HeadAttention, other: Float[Tensor, "n T S"]) -> Float[Tensor, " n"]:
    """Total variation, mean over the rows that see several keys."""
    return _over_rows((found.weights.double() - other.double()).abs().sum(-1) / 2, found)


def _over_rows(rows: Float[Tensor, "n T"], found: HeadAttention) -> Float[Tensor, " n"]:
    several = (found.visible.sum(-1) > 1).double()
    return ((rows * several).sum(-1) / several.sum(-1).clamp(min=1)).cpu()


def _jensen_shannon(one: Float[Tensor, "n T S"], other: Float[Tensor, "*k n T S"]) -> Float[Tensor, "*k n T"]:
    """H((w + w') / 2) − (H(w) + H(w')) / 2, in nats."""
    return _entropy((one + other) / 2) - (_entropy(one) + _entropy(other)) / 2


def _entropy(rows: Float[Tensor, "*k n T S"]) -> Float[Tensor, "*k n T"]:
    return -(rows * rows.clamp(min=TINY).log()).sum(-1)


@torch.no_grad()
def effects(passage: "EvalText", place: "Place", heads: Sequence[int], words: Float[Tensor, "n T E"]) -> Float[Tensor, " n"]:
    """How far the model's output moves when each of these heads, alone, says this."""
    found = []
    for some in torch.arange(len(heads)).split(passage.at_once):

        def change(call: int, read: Tensor, some: Tensor = some) -> Tensor:
            copies = read.unflatten(0, (len(some), -1)).clone()
            for copy, number in enumerate(some.tolist()):
                copies[copy, :, :, heads[number]] = words[number].to(read)
            return copies.flatten(0, 1)

        found.append(passage.loss(passage.forward.outputs([place.index], change, len(some)), len(some)))
    return torch.cat(found).double().cpu()

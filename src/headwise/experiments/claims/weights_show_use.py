"""Claim: attention weights show what the model uses. Compares them with two attributions, and searches for different weights with the same output."""

from collections import defaultdict
from typing import TYPE_CHECKING

import torch

from headwise.analysis.ablation.eval_text import EvalText, Evaluator
from headwise.axes import Float, Tensor
from headwise.experiments.card import Card, ClaimVerdict, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import bounds, mean_over_texts, side_of, texts_needed
from headwise.experiments.estimates.split_halves import split_halves, weighted_mean
from headwise.experiments.measurements.input_attribution import RankAgreement, rank_agreement
from headwise.experiments.measurements.perturbed_weights import PerturbationResult, perturb_weights
from headwise.experiments.number_text import percent

if TYPE_CHECKING:
    from headwise.experiments.study import Head, Study

FEWEST, TEXTS, LENGTH = 6, 6, 40  # texts needed, texts used, tokens of each
HEADS = 12  # the most important heads, whose weights are perturbed
WITHIN, PART_OF = 0.01, 0.1  # the output counts as unchanged within both: KL in nats or 1 − cosine, and a tenth of the effect of ablating the head
AGREES, FAR = 0.5, 0.25  # Kendall's τ, and a share of the largest possible Jensen–Shannon divergence
SHOWN = 300


def run(study: "Study") -> Card:
    return study.too_few_texts(FEWEST, "the agreement of weights with attributions") or _card(study)


def _card(study: "Study") -> Card:
    texts = [_opened(study, number) for number in range(min(len(study.texts), TEXTS))]
    agreed, perturbed = [], []
    heads = _most_important(study)
    for done, passage in enumerate(texts, start=1):
        agreed.append(rank_agreement(passage))
        perturbed.append(_perturbed(passage, heads, study.seed))
        study.progress("masking tokens and perturbing weights", done, len(texts))
    numbers = {**_ranks(agreed, study.seed), **_distances(perturbed, study.seed)}
    verdict = _verdict(numbers["hidden"], numbers["far"])
    summary = _summary(numbers, len(heads))
    if verdict == "inconclusive":
        summary = f"{summary} {_needed(numbers, len(texts))}"
    tokens = sum(passage.places[0].keys for passage in texts)
    measure = "kl" if _measure(study) == "kl" else "cosine"
    correction = _correction(numbers["hidden"]) if verdict == "corrected" else ""
    return Card(verdict, summary, numbers, _plot(agreed), correction, len(texts), tokens, measure)


def _measure(study: "Study") -> str:
    """The measure of a change of the output: of distributions over tokens, or of hidden states."""
    return "cosine" if study.loss == "cosine" else "kl"


def _opened(study: "Study", number: int) -> EvalText:
    ids = study.model.tokenizer(study.texts[number])["input_ids"][:LENGTH]
    return Evaluator(study.model, _measure(study), study.part, study.seed).open(torch.tensor(ids))


def _most_important(study: "Study") -> "list[Head]":
    """The heads with the largest ablation effect."""
    weights = study.counts[study.ablation_texts]
    importance = weighted_mean(study.effects * weights[:, None, None], weights)
    order = importance.nan_to_num(-torch.inf).flatten().argsort(descending=True)[: min(HEADS, len(study.heads))]
    return sorted(divmod(int(place), importance.shape[1]) for place in order)


def _perturbed(passage: EvalText, heads: "list[Head]", seed: int) -> list[PerturbationResult]:
    by_layer: dict[int, list[int]] = defaultdict(list)
    for layer, head in heads:
        by_layer[layer].append(head)
    return [perturb_weights(passage, passage.places[layer], some, WITHIN, PART_OF, seed) for layer, some in by_layer.items()]


def _ranks(agreed: list[RankAgreement], seed: int) -> dict[str, Number]:
    by_head = {name: torch.stack([getattr(text, name) for text in agreed]) for name in ("hidden", "slope")}
    mean_head = {name: found.flatten(1).nanmean(1) for name, found in by_head.items()}
    one, other = split_halves(len(agreed), seed)
    best = int(by_head["hidden"][one].mean(0).nan_to_num(-torch.inf).argmax())
    layer, head = divmod(best, by_head["hidden"].shape[2])
    numbers = {
        "hidden": mean_over_texts(
            mean_head["hidden"], seed=seed, means="Kendall's τ between a head's weights and the change of the output when each token is masked, mean over heads"
        ),
        "slope": mean_over_texts(mean_head["slope"], seed=seed, means="likewise with the gradient at each token's embedding", published=UNCORRELATED),
        "hidden_best": mean_over_texts(
            by_head["hidden"][other, layer, head], seed=seed, means=f"with masking, head {layer}.{head}, which was best on the other half of the texts"
        ),
        "hidden_mean": mean_over_texts(
            torch.tensor([text.mean_hidden for text in agreed], dtype=torch.float64), seed=seed, means="with masking, for weights averaged over all heads"
        ),
        "row_sums": Number(max(text.off for text in agreed), "largest deviation of a row sum of the weights from 1"),
    }
    lengths = [text.by_length for text in agreed if text.by_length is not None]
    if len(lengths) == len(agreed):
        weighted = torch.stack(lengths).flatten(1).nanmean(1)
        numbers["hidden_by_length"] = mean_over_texts(
            weighted, seed=seed, means="with masking, for weights times the norms of the transformed values (Kobayashi 2020), mean over heads"
        )
        numbers["length_adds"] = mean_over_texts(weighted - mean_head["hidden"], seed=seed, means="improvement of that over weights alone")
    return numbers


def _distances(perturbed: list[list[PerturbationResult]], seed: int) -> dict[str, Number]:
    def each(name: str) -> Float[Tensor, "n h"]:
        return torch.stack([torch.cat([getattr(layer, name) for layer in text]) for text in perturbed])

    far, varied, ablated = each("far"), each("varied"), each("silenced")
    heads = far.shape[1]
    of_ablation = {name: (each(name) / ablated.clamp(min=1e-12)).median(1).values for name in ("permuted", "uniform")}
    stays = f"while the output changes by at most {WITHIN} and a tenth of the effect of ablating the head"
    return {
        "far": mean_over_texts(
            far.mean(1),
            seed=seed,
            means=f"distance of perturbed weights found {stays}: Jensen–Shannon divergence as a share of log 2, mean of {heads} heads",
            published=ADVERSARIAL,
        ),
        "varied": mean_over_texts(varied.mean(1), seed=seed, means="total variation of these weights"),
        "permuted": mean_over_texts(
            of_ablation["permuted"], seed=seed, means="effect of permuted weights on the output, relative to ablating the head; median head"
        ),
        "uniform": mean_over_texts(of_ablation["uniform"], seed=seed, means="likewise uniform weights", published=UNIFORM),
    }


def _verdict(hidden: Number, far: Number) -> ClaimVerdict:
    agrees, moves = side_of(hidden, AGREES), side_of(far, FAR)
    if "unsure" in (agrees, moves):
        return "inconclusive"
    if agrees == moves:
        return "corrected"
    return "kept" if agrees == "above" else "cut"


def _correction(hidden: Number) -> str:
    if hidden.value > AGREES:
        return "They rank what is used, but very different weights give the same output."
    return "The output depends on them, but they do not rank what the model uses."


def _summary(numbers: dict[str, Number], heads: int) -> str:
    hidden, slope, far = numbers["hidden"], numbers["slope"], numbers["far"]
    with_masking, by_gradient = _interval(hidden), _interval(slope)
    first = f"A head's weights agree with the effect of masking each token at τ = {with_masking}, and with gradients at {by_gradient};"
    first = f"{first} weights averaged over all heads agree with masking at {numbers['hidden_mean'].value:.2f}."
    least, most = (percent(end) for end in bounds(far))
    second = f"In the {heads} most important heads, weights at {percent(far.value)} ({least} to {most}) of the largest Jensen–Shannon divergence"
    third = f"{second} left the output unchanged; uniform weights have {percent(numbers['uniform'].value)} of the effect of ablation."
    if "length_adds" not in numbers:
        return f"{first} {third}"
    adds = numbers["length_adds"]
    unsure = ", no certain difference" if side_of(adds, 0) == "unsure" else ""
    weighted = f"Weighted by the norms of the transformed values, τ is {numbers['hidden_by_length'].value:.2f}{unsure}."
    return f"{first} {weighted} {third}"


def _interval(number: Number) -> str:
    low, high = bounds(number)
    return f"{number.value:.2f} ({low:.2f} to {high:.2f})"


def _needed(numbers: dict[str, Number], texts: int) -> str:
    counts = [texts_needed(numbers[name], bar, texts) for name, bar in (("hidden", AGREES), ("far", FAR)) if side_of(numbers[name], bar) == "unsure"]
    known = [count for count in counts if count is not None]
    return f"About {max(known)} texts would be needed." if known else "More texts would not decide."


def _plot(agreed: list[RankAgreement]) -> Plot:
    """Each head's τ by layer."""
    found = torch.stack([text.hidden for text in agreed]).mean(0)
    places = (~found.isnan()).nonzero()
    places = places[torch.linspace(0, len(places) - 1, min(len(places), SHOWN)).round().long()]
    layers, taus = places[:, 0].double().tolist(), found[places[:, 0], places[:, 1]].tolist()
    return Plot("points", "layer", "τ of weights with the effect of masking", [Series("a head", layers, taus)], reference=AGREES)


UNCORRELATED = "frequently uncorrelated (Jain & Wallace 2019, recurrent encoders)"
ADVERSARIAL = "very different weights with equivalent predictions can be found (Jain & Wallace 2019)"
UNIFORM = "on some tasks as good as learned weights (Wiegreffe & Pinter 2019)"

ENTRY = Claim(
    sentence="Attention weights show what the model uses.",
    source="Jain and Wallace 2019, Attention is not Explanation; Wiegreffe and Pinter 2019, Attention is not not Explanation; Kobayashi et al. 2020",
    address="https://arxiv.org/abs/1902.10186",
    published="Weights are frequently uncorrelated with gradients, and very different ones give equivalent predictions (Jain & Wallace 2019). Interpreting "
    "that needs baselines: uniform weights, other seeds, weights frozen into another model, a model trained to be adversarial (Wiegreffe & Pinter 2019; of "
    "these only uniform weights can be tested without training). Weights are one of two factors; the norm of the transformed value is the other "
    "(Kobayashi 2020).",
    definition="A model's use of a token is the change of its output at another token when no head may attend to the former, or the gradient of that output at "
    "the former's embedding. Weights show it to the extent that they rank tokens in the same order (Kendall's τ, without the token itself). The output depends "
    "on the weights to the extent that other weights, searched for each text and head, change it by more than "
    f"{WITHIN} (KL in nats, or 1 − cosine) or a tenth of the effect of ablating the head.",
    refuted_by="Ranks that disagree, and very different weights with the same output.",
    rule=f"Kept: the mean head's τ with masking is above {AGREES}, and no weights at {FAR} or more of the largest Jensen–Shannon divergence are found that "
    "leave the output unchanged, on average over the most important heads. Cut: τ is below, and such weights are found. Corrected: one of the two. All by "
    "their 95 % intervals over texts. The search gives a lower bound: weights even further away may exist.",
    run=run,
)

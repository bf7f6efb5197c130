"""Claim: attention is quadratic. Measures time and memory against sequence length, and counts the pairs that the model's masks leave visible."""

from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING, Any

import torch

from headwise.errors import ModelError
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import side_of
from headwise.experiments.measurements.growth import LENGTHS, ROUNDS, WINDOW, Shape, exponent, seconds
from headwise.experiments.measurements.peak_memory import measure_peaks
from headwise.experiments.measurements.visible_pairs import VisiblePairs, visible_pairs
from headwise.experiments.number_text import percent
from headwise.models.inputs.encoding import max_positions

if TYPE_CHECKING:
    from headwise.experiments.study import Study

FULL = ("eager", "fused", "headwise")  # the implementations without a window
HEADS, WIDTH = 4, 64  # the largest number of heads, and their largest width, in the attention that is timed
LONG = 4096  # tokens of the text in which visible pairs are counted, if the model has that many positions
BAR = 1.5  # an exponent above this is nearer to 2 than to 1


def run(study: "Study") -> Card:
    """Fit the exponents of time and memory, and count the visible pairs of the model's layers."""
    passage = study.passage(0)
    seen = visible_pairs(passage, min(LONG, max_positions(study.model.hf) or LONG))
    width = passage.forward.cache.wo_inputs[passage.places[0].index].shape[3]
    shape = Shape(min(HEADS, passage.places[0].heads), min(WIDTH, width), seen.causal)
    taken = seconds(shape, progress=study.progress)
    try:
        memory, why = measure_peaks(shape), ""
    except ModelError as error:
        memory, why = {}, str(error)
    numbers = _numbers(taken, memory, seen)
    verdict, correction = _verdict(numbers)
    return Card(verdict, _summary(numbers, shape, seen, why), numbers, _plot(taken, memory), correction)


def _numbers(taken: dict[str, list[list[float]]], memory: dict[str, list[float]], seen: VisiblePairs) -> dict[str, Number]:
    numbers = {}
    for name, rounds in taken.items():
        numbers[f"time, {name}"] = _median([exponent(LENGTHS, row) for row in rounds], "exponent of its time in the length; median of rounds")
        numbers[f"doubling, {name}"] = _median([row[-1] / row[-2] for row in rounds], f"time for {LENGTHS[-1]} tokens over that for {LENGTHS[-2]}")
        numbers[f"seconds, {name}"] = _median([row[-1] for row in rounds], f"for {LENGTHS[-1]} tokens", "s")
    for name, sizes in memory.items():
        slopes = [log2(larger / smaller) for smaller, larger in pairwise(sizes) if smaller > 0 and larger > 0]
        means = "exponent of its peak memory beyond the inputs; the interval spans the exponents of single doublings"
        if len(slopes) == len(sizes) - 1:
            numbers[f"memory, {name}"] = Number(exponent(LENGTHS, sizes), means, min(slopes), max(slopes))
        numbers[f"MiB, {name}"] = Number(sizes[-1], f"for {LENGTHS[-1]} tokens", unit="MiB")
    known = [pairs for pairs in seen.pairs if pairs is not None]
    if known:
        numbers["pairs"] = Number(
            sum(known) / (len(known) * seen.everything),
            f"share of all query–key pairs that are visible in the model's layers, in a text of {seen.length} tokens",
            unit="share",
        )
        numbers["narrow layers"] = Number(
            float(sum(pairs < seen.everything for pairs in known)), f"layers in which some pairs are masked, of {len(seen.pairs)}", unit="layers"
        )
    return numbers


def _median(values: list[float], means: str, unit: str = "") -> Number:
    """The median over rounds, with its 95 % bootstrap interval."""
    found = torch.tensor(values, dtype=torch.float64)
    draws = torch.randint(len(values), (1000, len(values)), generator=torch.Generator().manual_seed(0))
    low, high = torch.quantile(found[draws].median(1).values, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Number(float(found.median()), means, low, high, unit)


def _verdict(numbers: dict[str, Number]) -> tuple[Any, str]:
    """Apply the claim's rule."""
    time = {side_of(numbers[f"time, {name}"], BAR) for name in FULL}
    memory = [side_of(numbers[f"memory, {name}"], BAR) for name in FULL if f"memory, {name}" in numbers]
    if time == {"below"}:
        return "cut", ""
    if time != {"above"} or len(memory) < len(FULL):
        return "inconclusive", ""
    if set(memory) == {"above"}:
        return "kept", ""
    return ("corrected", "Its time is; its memory need not be.") if "below" in memory else ("inconclusive", "")


def _summary(numbers: dict[str, Number], shape: Shape, seen: VisiblePairs, why: str) -> str:
    def grows(kind: str) -> str:
        return ", ".join(f"T^{numbers[f'{kind}, {name}'].value:.2f} {name}" for name in FULL if f"{kind}, {name}" in numbers)

    sentences = [
        f"From {LENGTHS[0]} to {LENGTHS[-1]} tokens, with {shape.heads} heads of width {shape.width}, the time of one attention layer on this machine grows as "
        f"{grows('time')}."
    ]
    if why:
        sentences.append(f"Memory could not be measured: {why}")
    else:
        sizes = ", ".join(f"{numbers[f'MiB, {name}'].value:.0f}" for name in FULL)
        sentences.append(f"Peak memory beyond the inputs grows as {grows('memory')}: {sizes} MiB for {LENGTHS[-1]} tokens.")
    sentences.append(f"With a window of {WINDOW} tokens the time grows as T^{numbers['time, headwise, window'].value:.2f}.")
    return " ".join([*sentences, _of_model(numbers, seen)])


def _of_model(numbers: dict[str, Number], seen: VisiblePairs) -> str:
    """The share of pairs saved by windowed or sparse layers of the model."""
    if "pairs" not in numbers:
        return "The visible pairs of this model in longer texts cannot be determined, because it builds its masks as tensors."
    narrow, layers = int(numbers["narrow layers"].value), len(seen.pairs)
    masks = "beyond causal masking" if seen.causal else "from its queries"
    unknown = seen.pairs.count(None)
    if not narrow and not unknown:
        return f"No layer of this model hides any keys {masks}, so no pairs are saved."
    if not narrow:
        known = f"No layer whose mask can be read hides any keys {masks}"
        return f"{known}; {unknown} of {layers} layers build their masks as tensors, so their visible pairs cannot be determined."
    return (
        f"{narrow} of this model's {layers} layers hide keys {masks}; with {seen.length} tokens this saves {percent(1 - numbers['pairs'].value)} of the pairs."
    )


def _plot(taken: dict[str, list[list[float]]], memory: dict[str, list[float]]) -> Plot:
    """Time against length, with the range over rounds."""
    x = [float(length) for length in LENGTHS]
    series = []
    for name, rounds in taken.items():
        by_length = torch.tensor(rounds, dtype=torch.float64)
        series.append(Series(name, x, by_length.median(0).values.tolist(), by_length.min(0).values.tolist(), by_length.max(0).values.tolist()))
    return Plot("line", "tokens", "seconds", tuple(series), log_x=True, log_y=True)


ENTRY = Claim(
    sentence="Attention is quadratic.",
    source="Vaswani et al. 2017, table 1; Dao et al. 2022, FlashAttention",
    address="https://arxiv.org/abs/2205.14135",
    published="Table 1: O(T² · M) operations per layer. Dao et al.: exact attention in O(T²) time, with O(T) memory beyond inputs and output.",
    definition=(
        "Time and memory of one exact attention layer over T tokens are fitted as c · T^a, with full or causal masking as in the model, for three "
        "implementations: eager (scores, softmax and product as tensors), fused (torch's scaled_dot_product_attention) and headwise (with all its statistics). "
        "Memory is the peak of the process beyond the inputs. Visible pairs of the model's layers are counted from the rules of their masks. The rest of the "
        "model, which is linear in T, is not timed."
    ),
    refuted_by="Exponents that are certainly nearer to 1 than to 2.",
    rule=(
        f"Kept: the exponents of time and of memory are certainly above {BAR} for all three implementations. Corrected: those of time are, and that of memory "
        f"is certainly below {BAR} for some implementation. Cut: those of time are certainly below. Intervals: for time, 95 %, bootstrap of the median over "
        f"{ROUNDS} interleaved rounds; for memory, the range over single doublings."
    ),
    run=run,
)

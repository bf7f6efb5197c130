"""Every token looks at every other: what of that grows with the square of the length, on this machine and in this model?"""

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

FULL = ("eager", "fused", "headwise")  # the ways that see everything
HEADS, WIDTH = 4, 64  # at most: what is timed is one layer's attention with so many of the model's heads
LONG = 4096  # tokens: of a text in which the model's pairs are counted, where it has so many positions
BAR = 1.5  # an exponent above it is nearer to 2 than to 1


def run(study: "Study") -> Card:
    """Time and memory against length; pairs that the model's layers look at."""
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
        numbers[f"time, {name}"] = _median([exponent(LENGTHS, row) for row in rounds], "exponent of its time over the length; median of rounds")
        numbers[f"doubling, {name}"] = _median([row[-1] / row[-2] for row in rounds], f"times as long for {LENGTHS[-1]} tokens as for {LENGTHS[-2]}")
        numbers[f"seconds, {name}"] = _median([row[-1] for row in rounds], f"for {LENGTHS[-1]} tokens", "s")
    for name, sizes in memory.items():
        slopes = [log2(larger / smaller) for smaller, larger in pairwise(sizes) if smaller > 0 and larger > 0]
        means = "exponent of the memory that it holds beyond its inputs; from the smallest to the largest of single doublings"
        if len(slopes) == len(sizes) - 1:
            numbers[f"memory, {name}"] = Number(exponent(LENGTHS, sizes), means, min(slopes), max(slopes))
        numbers[f"MiB, {name}"] = Number(sizes[-1], f"for {LENGTHS[-1]} tokens", unit="MiB")
    known = [pairs for pairs in seen.pairs if pairs is not None]
    if known:
        numbers["pairs"] = Number(
            sum(known) / (len(known) * seen.everything), f"of all pairs in a text of {seen.length} tokens, those that the model's layers look at", unit="share"
        )
        numbers["narrow layers"] = Number(
            float(sum(pairs < seen.everything for pairs in known)), f"look at fewer than all; of {len(seen.pairs)}", unit="layers"
        )
    return numbers


def _median(values: list[float], means: str, unit: str = "") -> Number:
    """The median of rounds, and where it would lie with other rounds."""
    found = torch.tensor(values, dtype=torch.float64)
    draws = torch.randint(len(values), (1000, len(values)), generator=torch.Generator().manual_seed(0))
    low, high = torch.quantile(found[draws].median(1).values, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Number(float(found.median()), means, low, high, unit)


def _verdict(numbers: dict[str, Number]) -> tuple[Any, str]:
    """See the rule."""
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

    said = [
        f"From {LENGTHS[0]} to {LENGTHS[-1]} tokens, with {shape.heads} heads of width {shape.width}, the time of one attention on this machine grows as "
        f"{grows('time')}."
    ]
    if why:
        said.append(f"Memory could not be read: {why}")
    else:
        sizes = ", ".join(f"{numbers[f'MiB, {name}'].value:.0f}" for name in FULL)
        said.append(f"What it holds beyond its inputs grows as {grows('memory')}: {sizes} MiB for {LENGTHS[-1]} tokens.")
    said.append(f"In a window of {WINDOW} tokens the time grows as T^{numbers['time, headwise, window'].value:.2f}.")
    return " ".join([*said, _of_model(numbers, seen)])


def _of_model(numbers: dict[str, Number], seen: VisiblePairs) -> str:
    """What windows or sparse layers of the model save."""
    if "pairs" not in numbers:
        return "What this model's own layers look at in a longer text cannot be told: it builds its masks as tensors."
    narrow, layers = int(numbers["narrow layers"].value), len(seen.pairs)
    direction = "up to the query itself" if seen.causal else "in both directions"
    unknown = seen.pairs.count(None)
    if not narrow and not unknown:
        return f"No layer of this model looks at less than everything {direction}: nothing is saved."
    if not narrow:
        said = f"No layer of this model is seen to look at less than everything {direction}"
        return f"{said}; of {unknown} of {layers} nothing can be told, as their masks are tensors."
    return (
        f"In {narrow} of this model's {layers} layers tokens see less than everything {direction}: of {seen.length} tokens that saves "
        f"{percent(1 - numbers['pairs'].value)} of the pairs."
    )


def _plot(taken: dict[str, list[list[float]]], memory: dict[str, list[float]]) -> Plot:
    """Seconds by length."""
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
    published="Table 1: T² · M operations a layer. Dao et al.: exact attention in time of the order T², with memory beyond inputs and output of the order T.",
    definition=(
        "Time and memory of one exact attention over T tokens as c · T^a, each token seeing all, or all up to itself where the model's do: eager (scores, "
        "softmax and product as tensors), fused (torch's scaled_dot_product_attention), headwise (with all its statistics). Memory is the most that the "
        "process holds beyond the inputs. What the model's layers look at is counted from the rules that their masks state. The rest of the model, which "
        "grows as T, is not timed."
    ),
    refuted_by="Exponents that are certainly nearer to 1 than to 2.",
    rule=(
        f"Kept: the exponents of time and of memory are certainly above {BAR} for all three ways. Corrected: those of time are, and that of memory is "
        f"certainly below for some way. Cut: those of time are certainly below. Intervals: of time, 95 %, bootstrap of the median over {ROUNDS} rounds in "
        "turn; of memory, from the smallest to the largest of single doublings."
    ),
    run=run,
)

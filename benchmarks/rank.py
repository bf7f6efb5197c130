"""`hw.rank` against plain forwards of the same model: all heads by exact ablation, and all at once by gradient."""

import statistics
import time

import torch

import headwise as hw
from benchmarks.pairs import Pair, Report, machine, paired
from headwise.analysis.ablation.eval_text import EvalText, Evaluator
from headwise.analysis.ablation.exact_ablation import ablated_losses, zero_ablation
from headwise.analysis.ablation.gradient import effects

GOAL, GRADIENT_GOAL = 0.6, 5.0
COPIES = 3  # heads of a layer that are timed: as many as share a key head


def run(quick: bool) -> Report:
    """SmolLM2 on 1,024 tokens. A head of layer l costs the layers from there on: some layers are timed, those between them lie on the line."""
    model, length = hw.open_model("demo:smollm2"), 128 if quick else 1024
    ids = {"input_ids": torch.randint(1000, 40000, (1, length), generator=torch.Generator().manual_seed(0))}
    model.hf.set_attn_implementation("sdpa")
    plain = torch.no_grad()(lambda: model.hf(**ids))
    opener = Evaluator(model, "next")
    passage = opener.open(ids)
    opener.learn(passage)
    layers = (0, 15, 29)
    pairs = [_a_head(passage, layer, plain, length) for layer in layers]
    pairs.append(
        paired(f"gradient of all 270 heads, T = {length}", lambda: effects(opener.open(ids)), plain, peer_name="sdpa forward", rounds=2, goal=GRADIENT_GOAL)
    )
    numbers = {}
    for name, pick in (("by the clock", lambda pair: pair.ratio), ("by processor time", lambda pair: pair.busy_ratio)):
        numbers[f"all 270 heads by ablation in plain forwards a head, {name}; goal {GOAL}"] = _mean_of_line(layers, [pick(pair) for pair in pairs[:3]])
    seen = machine()  # before Ray, whose processes are not our children and would pass for others
    numbers["two Ray workers of one thread against one process on both cores, MiniLM: units a second; goal 0.9 or more"] = _spread(4 if quick else 24)
    return Report("rank", seen, pairs, numbers)


def _a_head(passage: EvalText, layer: int, plain, length: int) -> Pair:
    """One head of a layer, from several that go into one batch."""
    place = passage.places[layer]
    several = paired(
        f"{COPIES} heads of layer {layer}, T = {length}",
        lambda: ablated_losses(passage, place, zero_ablation(passage, place.index), range(COPIES)),
        plain,
        peer_name="sdpa forward",
        rounds=3,
    )
    one = {name: getattr(several, name) / COPIES for name in ("ours_s", "ratio", "lowest", "highest", "busy_ratio")}
    return Pair(**{**vars(several), **one, "case": f"ablation of a head of layer {layer}, T = {length}"})


def _spread(texts: int) -> float:
    """Units a second of two workers over those of one process. Starting the workers is not counted, nor what each does first."""
    model = hw.open_model("demo:minilm")
    drawn = torch.Generator().manual_seed(0)
    ids = [{"input_ids": torch.randint(1000, 20000, (1, 256), generator=drawn)} for _ in range(texts)]

    def pace(ray: str | None) -> float:
        times: list[float] = []
        hw.rank(model, ids, ray=ray, progress=lambda _, done, total: times.append(time.perf_counter()))
        start = len(times) // 4
        return (len(times) - 1 - start) / (times[-1] - times[start])

    alone = pace(None)
    return pace("local") / alone


def _mean_of_line(layers: tuple[int, ...], ratios: list[float], count: int = 30) -> float:
    """The mean over all layers, straight between those that were timed."""
    found = []
    for layer in range(count):
        right = next(i for i in range(1, len(layers)) if layer <= layers[i])
        share = (layer - layers[right - 1]) / (layers[right] - layers[right - 1])
        found.append(ratios[right - 1] * (1 - share) + ratios[right] * share)
    return statistics.mean(found)


ENTRY = run

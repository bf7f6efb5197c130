"""Claim: a head can be muted at the gate while it still fires. Tests a planted case, and counts such heads in the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headwise.analysis.ablation.eval_text import EvalText, Evaluator
from headwise.analysis.ablation.rank import rank
from headwise.axes import Bool, Float, Tensor
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.bootstrap_statistic import bootstrap_statistic
from headwise.experiments.estimates.confidence_interval import bounds
from headwise.experiments.measurements.negligible import OWN_LOSSES
from headwise.experiments.measurements.write_summary import WriteSummary, write_summary
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.hooks.derived_model import derive_model
from headwise.models.model import Model
from headwise.models.parameters.head_blocks import output_block
from headwise.models.runs.head_writes import write_measures

if TYPE_CHECKING:
    from headwise.experiments.study import Head, Study

FEWEST = 6  # texts
FIRES, MUTED = 0.5, 0.25  # relative to the layer's median head: the smallest z of a head that fires, the largest write of a muted one
FAINT = 0.1  # the second control: the factor by which a head's block of W_O is scaled
CONTROL = 2  # texts on which the controls are run
SHOWN = 300


@dataclass(frozen=True, eq=False)
class HeadMagnitudes:
    """The magnitudes of the heads' z and writes, relative to their layer's median head.

    Attributes:
        z: root mean square over tokens of the norm of z, which W_O reads.
        write: the same for the head's write, which is added to the residual stream.
    """

    z: Float[Tensor, "*d L H"]
    write: Float[Tensor, "*d L H"]

    @staticmethod
    def of(z: Float[Tensor, "*d L H"], write: Float[Tensor, "*d L H"], z_unit: Tensor | None = None, write_unit: Tensor | None = None) -> "HeadMagnitudes":
        """From sums or means of squares over tokens; the median head is taken from the latter two, if given."""
        pairs = ((z, z if z_unit is None else z_unit), (write, write if write_unit is None else write_unit))
        return HeadMagnitudes(*((squares.double() / unit.double().nanquantile(0.5, -1, keepdim=True)).clamp(min=0).sqrt() for squares, unit in pairs))

    @property
    def muted(self) -> Bool[Tensor, "*d L H"]:
        return (self.z >= FIRES) & (self.write <= MUTED)


@dataclass(frozen=True, eq=False)
class PlantedHead:
    """A head of the model whose block of W_O was set to 0.

    Attributes:
        same: its attention and its z are unchanged, bit for bit.
        found: the measure finds it, and no other head that was not muted before, relative to the layer's original median head; also with its block
            scaled to a tenth.
        write: the magnitude of its write.
        gradient: the absolute gradient of the loss along its z; None if the model has no loss of its own.
        faint: the layer's magnitudes with the block scaled to a tenth.
    """

    head: "Head"
    same: bool
    found: bool
    write: float
    gradient: float | None
    faint: HeadMagnitudes

    @property
    def holds(self) -> bool:
        return self.same and self.found and self.write == 0


def run(study: "Study") -> Card:
    return study.too_few_texts(FEWEST, "the size of z and of the writes") or _card(study)


def _card(study: "Study") -> Card:
    texts, tokens = len(study.texts), study.token_count
    if all(place.heads < 2 for place in study.passage(0).places):
        return Card("inconclusive", "Every layer has a single head, so there is no other to compare it with.", texts=texts, tokens=tokens)
    found = write_summary(study)
    own = HeadMagnitudes.of(found.z.sum(0), found.write.sum(0))
    control = _control(study, own)
    numbers = {**_numbers(found, study.seed), **_of_control(control)}
    summary = f"{_summary_control(control)} {_summary_own(own, numbers, len(study.heads))}"
    return Card("kept" if control.holds else "cut", summary, numbers, _plot(own, control), texts=texts, tokens=tokens)


def _numbers(found: WriteSummary, seed: int) -> dict[str, Number]:
    squares = torch.stack([found.z, found.write], 1) / found.tokens[:, None, None, None]

    def number(means: str, unit: str, statistic: Callable[[HeadMagnitudes], Float[Tensor, "d L H"]], joined: Callable[[Tensor], Tensor]) -> Number:
        return bootstrap_statistic(
            squares, found.tokens, lambda mean: joined(statistic(HeadMagnitudes.of(*mean.unbind(1))).flatten(1)), seed=seed, means=means, unit=unit
        )

    def count(flags: Tensor) -> Tensor:
        return flags.sum(1).double()

    def least(ratios: Tensor) -> Tensor:
        return ratios.nan_to_num(torch.inf).amin(1)

    fire = f"heads whose z is at least {FIRES} times that of their layer's median head, and whose write is at most {MUTED} times that of the median head"
    little = f"heads whose z is below {MUTED} times that of their layer's median head: their write is small already before W_O"
    passed = "write over z, both relative to the layer's median head; the minimum over heads, so biased downwards"
    return {
        "muted": number(fire, "heads", lambda x: x.muted, count),
        "say_little": number(little, "heads", lambda x: x.z < MUTED, count),
        "narrowest": number(passed, "", lambda x: x.write / x.z, least),
    }


def _control(study: "Study", own: HeadMagnitudes) -> PlantedHead:
    """Set the block of W_O of the most typical head to 0, and test whether the measure finds it."""
    layer, number = head = _typical(study, own)
    models = [study.model, _scaled(study, head, 0.0), _scaled(study, head, FAINT)]
    before, silent, faint = (_opened(study, model) for model in models)
    squares = [_in_layer(passages, layer) for passages in (before, silent, faint)]
    was, now, fainter = (HeadMagnitudes.of(*x, *squares[0]) for x in squares)
    planted = torch.arange(was.z.shape[1]) == number
    found = all(bool((sizes.muted == (was.muted | planted)).all()) for sizes in (now, fainter))
    gradient = None
    if study.loss in OWN_LOSSES:
        slopes = rank(models[1], study.texts[:1], "gradient", loss=study.loss, part=study.part, seed=study.seed)
        gradient = abs(float(slopes["effect"].values[head]))
    return PlantedHead(head, _same(before[0], silent[0], layer), found, float(now.write[0, number]), gradient, fainter)


def _typical(study: "Study", own: HeadMagnitudes) -> "Head":
    """The head closest to the median head of its layer; layers that reuse an earlier layer's W_O are skipped."""
    unlike = own.write.log().abs() + own.z.log().abs()
    session, used = study.passage(0).forward.session, set[str]()
    for layer, place in enumerate(study.passage(0).places):
        module = session.layout.sites[place.index].output.module
        if module in used:
            unlike[layer] = torch.nan
        used.add(module)
    layer, number = divmod(int(unlike.nan_to_num(torch.inf, posinf=torch.inf).argmin()), unlike.shape[1])
    return layer, number


def _scaled(study: "Study", head: "Head", factor: float) -> Model:
    """The model with this head's block of W_O multiplied by a factor; every other tensor is shared."""
    place, session = study.passage(0).places[head[0]], study.passage(0).forward.session
    block = output_block(session.hf, session.layout.sites[place.index], place.heads, head[1])
    whole = study.model.hf.get_parameter(block.parameter)
    hf = derive_model(study.model.hf, {block.parameter: block.put(whole, block.of(whole) * factor)})
    return Model(hf, study.model.tokenizer, study.model.name, study.model.note)


def _opened(study: "Study", model: Model) -> list[EvalText]:
    evaluator = Evaluator(model, study.loss, study.part, study.seed)
    return [evaluator.open(text) for text in study.texts[:CONTROL]]


def _in_layer(passages: Sequence[EvalText], layer: int) -> tuple[Float[Tensor, "1 H"], Float[Tensor, "1 H"]]:
    """Sums over tokens of the squared norms of the z and of the writes of one layer's heads."""
    z, write = [], []
    for passage in passages:
        read = passage.forward.cache.wo_inputs[passage.places[layer].index].double()
        session = passage.forward.session
        module = session.module(session.layout.sites[passage.places[layer].index].output.module)
        z.append(read.square().sum((0, 1, 3)))
        write.append(write_measures(read, module)["norm"].square().sum((0, 2)))
    return torch.stack(z).sum(0)[None], torch.stack(write).sum(0)[None]


def _same(before: EvalText, after: EvalText, layer: int) -> bool:
    """Whether the attention and the z of a layer's heads are unchanged, bit for bit."""
    records: list[AttentionRecord] = []
    for passage in (before, after):
        passage.forward.session.rerun(records.append, [passage.places[layer].index])
    requests, attended = [record.request for record in records], [record.attended for record in records]
    pairs = [
        (requests[0].query, requests[1].query),
        (requests[0].key, requests[1].key),
        (attended[0].lse, attended[1].lse),
        (attended[0].output, attended[1].output),
    ]
    return all(torch.equal(one, other) for one, other in pairs)


def _of_control(control: PlantedHead) -> dict[str, Number]:
    layer, head = control.head
    numbers = {
        "control_writes": Number(control.write, f"norm of the write of head {layer}.{head} with its block of W_O at 0"),
        "control_same": Number(float(control.same), "1 if its attention and z are bit-identical with its block at 0"),
        "control_found": Number(
            float(control.found),
            f"1 if the measure finds it muted, with its block at 0 and scaled by {FAINT}, and no other head of its layer that was not muted before",
        ),
    }
    if control.gradient is not None:
        numbers["control_learns"] = Number(
            control.gradient, "absolute gradient of the loss along its z with its block at 0, which its queries, keys and values would be trained by"
        )
    return numbers


def _summary_control(control: PlantedHead) -> str:
    name = f"head {control.head[0]}.{control.head[1]}"
    if not control.holds:
        return f"With its block of W_O set to 0, {name} did not both attend as before and write nothing: the control failed."
    learns = " No gradient reaches its queries, keys and values, so training could not change them." if control.gradient == 0 else ""
    return f"With its block of W_O set to 0, {name} attends exactly as before, bit for bit, and writes nothing.{learns}"


def _summary_own(own: HeadMagnitudes, numbers: dict[str, Number], heads: int) -> str:
    muted, little = numbers["muted"], numbers["say_little"]
    named = [f"{layer}.{head}" for layer, head in own.muted.nonzero().tolist()]
    listed = f" ({', '.join(named[:5])}{' and others' if len(named) > 5 else ''})" if named else ""
    count = "none is" if not named else f"{len(named)}{listed} are" if len(named) > 1 else f"one{listed} is"
    first = f"Of the model's own {heads} heads {count} muted in this sense"
    low, high = bounds(muted)
    return f"{first} (95 % interval over texts: {low:.0f} to {high:.0f}); {little.value:.0f} have a small z already before W_O."


def _plot(own: HeadMagnitudes, control: PlantedHead) -> Plot:
    """Every head, and the planted head with its block scaled to a tenth."""
    known = (~own.z.isnan()).flatten().nonzero()[:, 0]
    order = own.write.flatten()[known].argsort()
    kept = known[order[torch.linspace(0, len(known) - 1, min(len(known), SHOWN)).round().long()]]
    z, write = (x.flatten()[kept].clamp(min=1e-6).tolist() for x in (own.z, own.write))
    planted = Series(
        f"head {control.head[0]}.{control.head[1]} scaled by {FAINT}",
        [float(control.faint.z[0, control.head[1]])],
        [float(control.faint.write[0, control.head[1]])],
    )
    return Plot(
        "points", "z, relative to the layer's median head", "write, likewise", [Series("a head", z, write), planted], log_x=True, log_y=True, reference=MUTED
    )


ENTRY = Claim(
    sentence="A head can be muted at the gate while it still fires.",
    source="Elhage et al. 2021 on a head's own block of W_O; Kobayashi et al. 2020 and Bondarenko et al. 2023 on heads that attend but do nothing",
    address="https://arxiv.org/abs/2004.10102",
    published="No count of such heads. In BERT much of the attention to special tokens contributes little, because their value vectors are short (Kobayashi "
    "2020); heads learn to do nothing by attending to such tokens (Bondarenko 2023). Both happen before W_O.",
    definition=f"A head fires if the norm of its z, which W_O reads, is at least {FIRES} times that of its layer's median head, root mean square over tokens. "
    f"It is muted at the gate if its write through its block of W_O is nevertheless at most {MUTED} times that of the median head. A factor can be moved "
    "between W_V and W_O without changing the model, so only the size of the write is a property of the function; whether it is lost before or in W_O depends "
    "on the parametrisation.",
    refuted_by="A head whose attention changes when its block of W_O is set to 0, or that still writes something.",
    rule="The claim is about possibility, so a planted case decides. Kept: a head whose block of W_O was set to 0 has the same attention and z as before, bit "
    f"for bit, writes exactly 0, and is found by the measure, also with its block scaled by {FAINT}. Cut otherwise. The number of the model's own heads that "
    "are muted is reported as well, with its 95 % interval over texts.",
    run=run,
)

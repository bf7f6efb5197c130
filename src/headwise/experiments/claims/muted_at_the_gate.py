"""A head that attends, and says something, of which W_O lets nothing through: can there be one, and are there any?"""

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
FIRES, MUTED = 0.5, 0.25  # of the layer's median head: says at least so much, writes at most so much
FAINT = 0.1  # the second control: what a head's block of W_O is scaled by
CONTROL = 2  # texts on which the controls are looked at
SHOWN = 300


@dataclass(frozen=True, eq=False)
class HeadMagnitudes:
    """How much heads say and write, in units of their layer's median head.

    Attributes:
        said: root mean square, over tokens, of the length of what W_O reads of a head.
        wrote: of what the head adds.
    """

    said: Float[Tensor, "*d L H"]
    wrote: Float[Tensor, "*d L H"]

    @staticmethod
    def of(said: Float[Tensor, "*d L H"], wrote: Float[Tensor, "*d L H"], said_by: Tensor | None = None, wrote_by: Tensor | None = None) -> "HeadMagnitudes":
        """From sums, or means, of squares over tokens; the median head is that of the latter two, where they are given."""
        pairs = ((said, said if said_by is None else said_by), (wrote, wrote if wrote_by is None else wrote_by))
        return HeadMagnitudes(*((squares.double() / by.double().nanquantile(0.5, -1, keepdim=True)).clamp(min=0).sqrt() for squares, by in pairs))

    @property
    def muted(self) -> Bool[Tensor, "*d L H"]:
        return (self.said >= FIRES) & (self.wrote <= MUTED)


@dataclass(frozen=True, eq=False)
class PlantedHead:
    """A head of the model, silenced by hand at its block of W_O.

    Attributes:
        same: where it looks, and what it says, is what it was, bit for bit.
        found: it, and no head that was not muted before, is found to be muted, against the median head of the layer as it was; so it is when
            its block is scaled to a tenth.
        wrote: how much it writes.
        reaches: the gradient that reaches it; None where the loss has no slope.
    """

    head: "Head"
    same: bool
    found: bool
    wrote: float
    reaches: float | None
    faint: HeadMagnitudes

    @property
    def holds(self) -> bool:
        return self.same and self.found and self.wrote == 0


def run(study: "Study") -> Card:
    return study.too_few_texts(FEWEST, "what heads say and what they write") or _card(study)


def _card(study: "Study") -> Card:
    texts, tokens = len(study.texts), study.token_count
    if all(place.heads < 2 for place in study.passage(0).places):
        return Card("inconclusive", "Every layer has one head: there is no other to compare it with.", texts=texts, tokens=tokens)
    found = write_summary(study)
    own = HeadMagnitudes.of(found.said.sum(0), found.wrote.sum(0))
    control = _control(study, own)
    numbers = {**_numbers(found, study.seed), **_of_control(control)}
    says = f"{_summary_control(control)} {_summary_own(own, numbers, len(study.heads))}"
    return Card("kept" if control.holds else "cut", says, numbers, _plot(own, control), texts=texts, tokens=tokens)


def _numbers(found: WriteSummary, seed: int) -> dict[str, Number]:
    squares = torch.stack([found.said, found.wrote], 1) / found.tokens[:, None, None, None]

    def number(means: str, unit: str, statistic: Callable[[HeadMagnitudes], Float[Tensor, "d L H"]], joined: Callable[[Tensor], Tensor]) -> Number:
        return bootstrap_statistic(
            squares, found.tokens, lambda mean: joined(statistic(HeadMagnitudes.of(*mean.unbind(1))).flatten(1)), seed=seed, means=means, unit=unit
        )

    def count(flags: Tensor) -> Tensor:
        return flags.sum(1).double()

    def least(ratios: Tensor) -> Tensor:
        return ratios.nan_to_num(torch.inf).amin(1)

    fire = f"heads that say at least {FIRES} of what their layer's median head says, and write at most {MUTED} of what it writes"
    little = f"heads that say less than {MUTED} of what their layer's median head says: what they would write is small before W_O"
    passed = "what W_O lets through of what a head says, against its layer's median head; of all heads the least, which flatters"
    return {
        "muted": number(fire, "heads", lambda x: x.muted, count),
        "say_little": number(little, "heads", lambda x: x.said < MUTED, count),
        "narrowest": number(passed, "", lambda x: x.wrote / x.said, least),
    }


def _control(study: "Study", own: HeadMagnitudes) -> PlantedHead:
    """Silence the head that is most like the median head of its layer, and look whether the measure finds it."""
    layer, number = head = _typical(study, own)
    models = [study.model, _scaled(study, head, 0.0), _scaled(study, head, FAINT)]
    before, silent, faint = (_opened(study, model) for model in models)
    squares = [_in_layer(passages, layer) for passages in (before, silent, faint)]
    was, now, fainter = (HeadMagnitudes.of(*x, *squares[0]) for x in squares)
    planted = torch.arange(was.said.shape[1]) == number
    found = all(bool((sizes.muted == (was.muted | planted)).all()) for sizes in (now, fainter))
    reaches = None
    if study.loss in OWN_LOSSES:
        slopes = rank(models[1], study.texts[:1], "gradient", loss=study.loss, part=study.part, seed=study.seed)
        reaches = abs(float(slopes["effect"].values[head]))
    return PlantedHead(head, _same(before[0], silent[0], layer), found, float(now.wrote[0, number]), reaches, fainter)


def _typical(study: "Study", own: HeadMagnitudes) -> "Head":
    """The head that is most like the median head of its layer, of layers that are the first to use their W_O."""
    unlike = own.wrote.log().abs() + own.said.log().abs()
    session, used = study.passage(0).forward.session, set[str]()
    for layer, place in enumerate(study.passage(0).places):
        module = session.layout.sites[place.index].output.module
        if module in used:
            unlike[layer] = torch.nan
        used.add(module)
    layer, number = divmod(int(unlike.nan_to_num(torch.inf, posinf=torch.inf).argmin()), unlike.shape[1])
    return layer, number


def _scaled(study: "Study", head: "Head", factor: float) -> Model:
    """The model again, this head's block of W_O times a factor; every other tensor is shared."""
    place, session = study.passage(0).places[head[0]], study.passage(0).forward.session
    block = output_block(session.hf, session.layout.sites[place.index], place.heads, head[1])
    whole = study.model.hf.get_parameter(block.parameter)
    hf = derive_model(study.model.hf, {block.parameter: block.put(whole, block.of(whole) * factor)})
    return Model(hf, study.model.tokenizer, study.model.name, study.model.note)


def _opened(study: "Study", model: Model) -> list[EvalText]:
    opener = Evaluator(model, study.loss, study.part, study.seed)
    return [opener.open(text) for text in study.texts[:CONTROL]]


def _in_layer(passages: Sequence[EvalText], layer: int) -> tuple[Float[Tensor, "1 H"], Float[Tensor, "1 H"]]:
    """Sums over tokens of the squares of what the heads of one layer say, and write."""
    said, wrote = [], []
    for passage in passages:
        read = passage.forward.cache.wo_inputs[passage.places[layer].index].double()
        session = passage.forward.session
        module = session.module(session.layout.sites[passage.places[layer].index].output.module)
        said.append(read.square().sum((0, 1, 3)))
        wrote.append(write_measures(read, module)["norm"].square().sum((0, 2)))
    return torch.stack(said).sum(0)[None], torch.stack(wrote).sum(0)[None]


def _same(before: EvalText, after: EvalText, layer: int) -> bool:
    """Whether the heads of a layer look where they looked and say what they said."""
    heard: list[AttentionRecord] = []
    for passage in (before, after):
        passage.forward.session.rerun(heard.append, [passage.places[layer].index])
    asked, attended = [one.request for one in heard], [one.attended for one in heard]
    pairs = [(asked[0].query, asked[1].query), (asked[0].key, asked[1].key), (attended[0].lse, attended[1].lse), (attended[0].output, attended[1].output)]
    return all(torch.equal(one, other) for one, other in pairs)


def _of_control(control: PlantedHead) -> dict[str, Number]:
    layer, head = control.head
    numbers = {
        "control_writes": Number(control.wrote, f"length of what head {layer}.{head} writes with its block of W_O at 0"),
        "control_same": Number(float(control.same), "1: with its block at 0 it attends to what it attended to and says what it said, bit for bit"),
        "control_found": Number(
            float(control.found), f"1: it is found to be muted, with its block at 0 and at {FAINT}, and no other head of its layer that was not before"
        ),
    }
    if control.reaches is not None:
        numbers["control_learns"] = Number(
            control.reaches, "size of the loss's slope along what it says, with its block at 0: what its queries, keys and values would learn from"
        )
    return numbers


def _summary_control(control: PlantedHead) -> str:
    name = f"head {control.head[0]}.{control.head[1]}"
    if not control.holds:
        return f"With the block of {name} in W_O at 0 it was not seen to attend as before and write nothing: the control failed."
    learns = " It would learn nothing: no gradient reaches its queries, keys and values." if control.reaches == 0 else ""
    return f"With the block of {name} in W_O at 0 it attends as before, bit for bit, and writes nothing.{learns}"


def _summary_own(own: HeadMagnitudes, numbers: dict[str, Number], heads: int) -> str:
    muted, little = numbers["muted"], numbers["say_little"]
    named = [f"{layer}.{head}" for layer, head in own.muted.nonzero().tolist()]
    listed = f" ({', '.join(named[:5])}{' and others' if len(named) > 5 else ''})" if named else ""
    first = f"Of the model's own {heads} heads {'none is' if not named else f'{len(named)}{listed} are' if len(named) > 1 else f'one{listed} is'} muted so"
    low, high = bounds(muted)
    return f"{first} ({low:.0f} to {high:.0f} with other texts); {little.value:.0f} say little to begin with, before W_O."


def _plot(own: HeadMagnitudes, control: PlantedHead) -> Plot:
    """Every head, and the one that was scaled to a tenth by hand."""
    known = (~own.said.isnan()).flatten().nonzero()[:, 0]
    quiet = own.wrote.flatten()[known].argsort()
    kept = known[quiet[torch.linspace(0, len(known) - 1, min(len(known), SHOWN)).round().long()]]
    said, wrote = (x.flatten()[kept].clamp(min=1e-6).tolist() for x in (own.said, own.wrote))
    by_hand = Series(
        f"head {control.head[0]}.{control.head[1]} at {FAINT}, by hand",
        [float(control.faint.said[0, control.head[1]])],
        [float(control.faint.wrote[0, control.head[1]])],
    )
    return Plot(
        "points", "says, of its layer's median head", "writes, likewise", [Series("a head", said, wrote), by_hand], log_x=True, log_y=True, reference=MUTED
    )


ENTRY = Claim(
    sentence="A head can be muted at the gate while it still fires.",
    source="Elhage et al. 2021 on a head's own block of W_O; Kobayashi et al. 2020 and Bondarenko et al. 2023 on heads that attend and do nothing",
    address="https://arxiv.org/abs/2004.10102",
    published="No count of such heads. In BERT much attention to special tokens carries little, as their vectors are short (Kobayashi 2020); heads "
    "learn to do nothing by attending to such tokens (Bondarenko 2023). Both happen before W_O.",
    definition=f"A head fires when the length of what W_O reads of it is at least {FIRES} of its layer's median head's, root mean square over tokens. It is "
    f"muted at the gate when all the same what it adds through its block of W_O is at most {MUTED} of what the median head adds. W_V and W_O can trade a "
    "factor and the model stays what it is: what counts is that little is written; where it gets lost is a matter of how the model is written down.",
    refuted_by="A head whose block of W_O is 0 attends to something else, or writes something.",
    rule="It is about what can be, so a planted case decides. Kept: a head whose block of W_O was set to 0 attends and speaks bit for bit as before, writes "
    f"exactly 0, and is found by the measure, as it is with its block at {FAINT}; else cut. How many heads of the model are so by themselves is counted beside "
    "it, with its 95 % interval over texts.",
    run=run,
)

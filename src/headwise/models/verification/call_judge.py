"""Judges some rows of every attention call of a pass in float64, by a kernel that shares no code with the one used."""

from dataclasses import dataclass

import torch
from torch import einsum

from headwise.attention.call import Attended
from headwise.attention.kernels.reference import attend as reference
from headwise.attention.weights import weights
from headwise.axes import Float, Rows, Tensor
from headwise.models.capture.forward_pass import ForwardPass
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.layout import w_o_bias, w_o_by_head
from headwise.models.runs.run_metadata import RunMetadata
from headwise.models.runs.slicing import one_row
from headwise.verdict import Verdict, WorstCase

ROWS = 8  # queries of each call that are judged: the first, the last, and some between
WEIGHTS = 5e-6  # what weights may differ by
STATISTICS = 1e-5  # what a statistic x may differ by, times 1 + |x|
BY_WEIGHT = ("peak",)  # judged by the weight at the key that it names, as equals may be chosen differently
NOT_BY_ROW = ("received", "segment")  # of all rows together, or in need of labels


@dataclass(frozen=True, eq=False)
class JudgedRow:
    """One query of every head and batch row: the weights of the run, and those of the reference.

    Attributes:
        slack: how far rounding may move a weight, relative to it.
        real: False where the query is padding or sees nothing.
    """

    weights: Float[Tensor, "B H S"]
    right: Float[Tensor, "B H S"]
    judged: Attended
    slack: Float[Tensor, "B H"]
    real: Tensor
    place: str


class CallJudge:
    """Judges the records of the proving pass."""

    def __init__(self, forward_pass: ForwardPass, metadata: RunMetadata) -> None:
        self.forward_pass, self.metadata = forward_pass, metadata
        self.judged: set[int] = set()
        names = [name for name in next(iter(metadata.numbers.values())).statistics if name not in NOT_BY_ROW]
        self.names = tuple(names)
        self.rows = WorstCase("rows", "every row of weights and its sink add up to 1")
        self.weights = WorstCase("weights", "weights are those of the float64 reference on the same queries and keys")
        self.hidden = WorstCase("hidden", "hidden keys have weight 0")
        self.output = WorstCase("output", "weights times values are z")
        self.statistics = WorstCase("statistics", f"{', '.join(names) or 'no statistic'}: as defined, from the reference's weights")
        self.writes = WorstCase("writes", "the writes of all heads, and the bias, add up to the output of the module that holds W_O")

    def __call__(self, record: AttentionRecord) -> None:
        self.metadata.check_same(record.index, record.attended.lse)
        self.judged.add(record.index)
        place = self.metadata.places[record.index]
        for row in sample_rows(place.queries):
            self._judge(record, self._row(record, row), row)
        if record.z is not None:
            self._judge_writes(record)

    def verdicts(self) -> tuple[Verdict, ...]:
        refusals = [site for site in self.metadata.layout.sites if site.refusal and site.index in self.judged]
        reason = f"{refusals[0].module}: {refusals[0].refusal}" if refusals else ""
        found = [worst.verdict() for worst in (self.rows, self.weights, self.hidden, self.output, self.statistics)]
        return (*found, (self.writes.verdict(reason) if reason else self.writes.verdict()))

    def _row(self, record: AttentionRecord, row: int) -> JudgedRow:
        request = record.request
        rows, every = slice(row, row + 1), slice(0, request.key.shape[2])
        ours = weights(request.query, request.key, record.attended.lse, request.call, rows, every)[:, :, 0]
        alone = one_row(request.call, row, every.stop)
        judged = reference(request.query[:, :, rows].double(), request.key.double(), request.value.double(), alone, (*self.names, "received"))
        right = judged.statistics["received"]
        place = self.metadata.places[record.index]
        padding = self.metadata.padding[place.part]
        real = judged.lse[:, :, 0] > -torch.inf
        if padding is not None:
            real = real & ~padding[:, row, None].to(real.device)
        return JudgedRow(ours, right, judged, rounding_slack(record, row, judged.lse[:, :, 0]), real, f"{place.part} layer {place.layer}, query {row}")

    def _judge(self, record: AttentionRecord, row: JudgedRow, index: int) -> None:
        if not bool(row.real.any()):
            return
        lse = record.attended.lse[:, :, index]
        sink = record.request.call.sink
        rest = 0 if sink is None else (sink.double() - lse.double()).exp()
        self._see(self.rows, (row.weights.double().sum(-1) + rest - 1).abs(), row.slack, row)
        self._see(self.weights, (row.weights - row.right).abs().amax(-1), row.slack.clamp(min=WEIGHTS), row)
        self._see(self.hidden, row.weights.where(row.right == 0, 0).amax(-1), torch.zeros_like(row.slack), row)
        self._see_output(record, row, index)
        numbers = self.metadata.numbers[record.index].statistics
        for name in self.names:
            got = numbers[name][:, :, index].to(row.right.device)
            self._see_statistic(name, got, record, row)

    def _see_output(self, record: AttentionRecord, row: JudgedRow, index: int) -> None:
        got, right = record.attended.output[:, :, index].double(), row.judged.output[:, :, 0]
        group = right.shape[1] // record.request.value.shape[1]
        sizes = record.request.value.double().abs().repeat_interleave(group, 1)
        carried = einsum("bhs,bhse->bhe", row.right, sizes)
        allowed = carried * row.slack[..., None] + right.abs() * torch.finfo(record.attended.output.dtype).eps + torch.finfo(torch.float32).tiny
        use = (got - right).abs() / allowed
        worst = use.argmax(-1, keepdim=True)
        self._see(self.output, (got - right).abs().gather(-1, worst)[..., 0], allowed.gather(-1, worst)[..., 0], row)

    def _see_statistic(self, name: str, got: Tensor, record: AttentionRecord, row: JudgedRow) -> None:
        right = row.judged.statistics[name][:, :, 0]
        if name in BY_WEIGHT:
            there = row.right.gather(-1, got.clamp(min=0)[..., None])[..., 0]
            got, right = there, row.right.amax(-1)
        elif name == "first" and record.request.padding is not None:
            start = record.request.padding.to(torch.uint8).argmax(-1)
            right = row.right.gather(-1, start[:, None, None].expand(*row.right.shape[:2], 1))[..., 0]
        residual = (got - right).abs() / (1 + right.abs())
        self._see(self.statistics, residual, (4 * row.slack).clamp(min=STATISTICS), row, name)

    def _judge_writes(self, record: AttentionRecord) -> None:
        site = self.metadata.layout.sites[record.index]
        place = self.metadata.places[record.index]
        module = self.forward_pass.module(site.output.module)
        blocks = w_o_by_head(module, place.heads).double()
        bias = w_o_bias(module)
        rows = torch.tensor(sample_rows(place.queries))
        read, written = record.z[:, rows].double(), record.w_o_output[:, rows].double()
        total = einsum("bthe,hem->bthm", read, blocks).sum(2)
        sizes = einsum("bthe,hem->btm", read.abs(), blocks.abs())
        if bias is not None:
            total, sizes = total + bias.double(), sizes + bias.double().abs()
        eps = torch.finfo(record.w_o_output.dtype).eps
        allowed = (
            sizes * torch.finfo(torch.float32 if eps > 1e-7 else record.w_o_output.dtype).eps * _error_growth(read.shape[2] * read.shape[3]) + total.abs() * eps
        )
        use = ((total - written).abs() / allowed.clamp(min=torch.finfo(torch.float32).tiny)).flatten()
        worst = int(use.argmax())
        where = f"{place.part} layer {place.layer}, {site.output.module}"
        self.writes.add(float((total - written).abs().flatten()[worst]), float(allowed.flatten()[worst]), where)

    def _see(self, worst: WorstCase, residual: Rows | Tensor, allowed: Tensor, row: JudgedRow, name: str = "") -> None:
        """Let a verdict see the head that uses up most of what is allowed."""
        use = torch.where(allowed > 0, residual / allowed.clamp(min=1e-300), torch.where(residual > 0, torch.inf, 0.0))
        use = use.nan_to_num(nan=torch.inf, posinf=torch.inf).masked_fill(~row.real, -1)
        at = int(use.flatten().argmax())
        batch, head = divmod(at, use.shape[1])
        worst.add(float(residual.flatten()[at]), float(allowed.flatten()[at]), f"{row.place}, head {head}, batch row {batch}{', ' if name else ''}{name}")


def sample_rows(queries: int) -> list[int]:
    """Some rows of so many: the first, the last, and others spread between.

    Example:
        >>> sample_rows(5), sample_rows(1000)
        ([0, 1, 2, 3, 4], [0, 143, 285, 428, 571, 714, 856, 999])
    """
    count = min(ROWS, queries)
    return [round(i * (queries - 1) / max(count - 1, 1)) for i in range(count)]


def rounding_slack(record: AttentionRecord, row: int, lse: Float[Tensor, "B H"]) -> Float[Tensor, "B H"]:
    """How far rounding may move the weights of a row, relative to them.

    A score is a sum of D products, each rounded; rounding errors of a sum are independent, so about sqrt(D) of them add up. The exponential turns
    an absolute error of a score into a relative one of a weight, and lse carries the same again.
    """
    query, key, call = record.request.query, record.request.key, record.request.call
    unit = torch.finfo(record.attended.lse.dtype if record.request.weights_dtype is None else record.request.weights_dtype).eps
    group = query.shape[1] // key.shape[1]
    sizes = einsum("bhd,bhsd->bhs", query[:, :, row].double().abs(), key.double().abs().repeat_interleave(group, 1))
    highest = sizes.amax(-1) * abs(call.scale)
    finite = lse.abs().nan_to_num(posinf=0)
    return unit * (2 * _error_growth(query.shape[3]) * highest + 2 * finite + 4 * _error_growth(key.shape[2]))


def _error_growth(terms: int) -> float:
    """By how many units the rounding of so many terms moves their sum."""
    return 2 + terms**0.5

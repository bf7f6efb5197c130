"""`certify`: enclosures hold the truth, are narrow, and tell errors in units of the last place."""

import math
from fractions import Fraction

import pytest
import torch

from headwise.attention.attend import attend
from headwise.conformance.exact.certificate import certify
from headwise.errors import ArgumentError, ArgumentTypeError, ShapeError


def drawn(dtype: torch.dtype = torch.float32, batch=2, heads=6, groups=2, queries=7, keys=11, width=5, wide=3) -> list[torch.Tensor]:
    make = torch.Generator().manual_seed(3)
    shapes = ((batch, heads, queries, width), (batch, groups, keys, width), (batch, groups, keys, wide))
    return [torch.randn(shape, generator=make).to(dtype) for shape in shapes]


def options(kind: str) -> dict:
    make = torch.Generator().manual_seed(4)
    return {
        "plain": {},
        "causal window": {"causal": True, "window": 3},
        "everything": {
            "mask": torch.rand(2, 1, 7, 11, generator=make) < 0.6,
            "bias": torch.randn(1, 6, 7, 11, generator=make),
            "sink": torch.randn(6, generator=make),
            "softcap": 1.5,
            "scale": -0.7,
            "query_offset": torch.tensor([2, -3]),
            "causal": True,
        },
    }[kind]


@pytest.mark.parametrize("kind", ["plain", "causal window", "everything"])
@pytest.mark.parametrize("backend", ["reference", "stream", None])
def test_every_row_of_a_float64_attention_lies_a_few_units_from_the_truth(kind: str, backend: str | None) -> None:
    q, k, v = drawn(torch.float64)
    found = certify(q, k, v, rows=84, heads=12, **options(kind))
    assert len(set(found.rows)) == 84
    assert found.output.width < 1e-14
    attended = attend(q, k, v, backend=backend, **options(kind))
    error = found.error(attended)
    assert error.output < 16
    assert error.lse is not None
    assert error.lse < 16


@pytest.mark.parametrize(("dtype", "units"), [(torch.float32, 8), (torch.bfloat16, 2), (torch.float16, 2)])
def test_low_precision_is_off_by_its_own_rounding_and_no_more(dtype: torch.dtype, units: float) -> None:
    q, k, v = drawn(dtype)
    found = certify(q, k, v, rows=84, heads=12, causal=True)
    error = found.error(attend(q, k, v, causal=True))
    assert 0 < error.output < units


def test_a_planted_error_is_told_to_the_unit() -> None:
    q, k, v = drawn()
    output = attend(q.double(), k.double(), v.double()).output.float()
    found = certify(q, k, v, rows=[(1, 4, 2), (0, 0, 0)])
    honest = found.error(output)
    assert honest.output < 1
    size = (torch.softmax(torch.einsum("d,sd->s", q[1, 4, 2].double(), k[1, 1].double()) * 5**-0.5, 0) @ v[1, 1].double().abs())[1]
    output[1, 4, 2, 1] += 100 * torch.finfo(torch.float32).eps * 2 ** math.floor(math.log2(size))
    wrong = found.error(output)
    assert wrong.at == (1, 4, 2)
    assert 98 < wrong.output < 102


def test_enclosures_hold_the_exact_value_where_it_is_rational() -> None:
    # scale 0: every weight is 1/3, and the output the mean of the values
    v = torch.tensor([[[[0.1], [0.2], [0.4]]]])
    found = certify(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 3, 2), v, scale=0.0)
    mean = sum(Fraction(x) for x in v.flatten().tolist()) / 3
    assert Fraction(float(found.output.low[0, 0])) <= mean <= Fraction(float(found.output.high[0, 0]))
    assert Fraction(float(found.weights.low[0, 1])) < Fraction(1, 3) < Fraction(float(found.weights.high[0, 1]))


def test_what_is_hidden_may_be_anything_and_dead_rows_are_exactly_zero() -> None:
    q, k, v = drawn()
    k[:, :, 4], v[:, :, 4] = torch.nan, torch.inf
    mask = torch.ones(7, 11, dtype=torch.bool)
    mask[:, 4], mask[3] = False, False
    found = certify(q, k, v, rows=7, mask=mask)
    assert found.output.low[3].tolist() == found.output.high[3].tolist() == [0, 0, 0]
    assert found.lse.low[3] == -torch.inf
    assert (found.weights.high[:, 4] == 0).all()
    assert found.error(attend(q, k, v, mask=mask)).output < 8
    with pytest.raises(ArgumentError, match=r"must be finite, got NaN or inf"):
        certify(q, k, v, rows=7)


def test_a_number_that_is_none_is_infinitely_off() -> None:
    q, k, v = drawn()
    output = attend(q, k, v).output
    output[0, 0, 0, 0] = torch.nan
    assert certify(q, k, v).error(output).output == math.inf


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"rows": [(0, 6, 0)]}, ArgumentError, r"rows must lie within \[batch, heads, queries\] = \[2, 6, 7\], got \(0, 6, 0\)"),
        ({"rows": 0}, ArgumentError, r"rows and heads must be at least 1, got 0 and 1"),
        ({"dropout": 0.1}, TypeError, r"unexpected keyword argument 'dropout'"),
    ],
)
def test_bad_input(change: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        certify(*drawn(), **change)


def test_shapes_that_do_not_fit() -> None:
    q, k, v = drawn()
    with pytest.raises(ShapeError, match=r"must be \[B, H, T, D\]"):
        certify(torch.zeros(2, 5, 7, 5), k, v)
    with pytest.raises(ShapeError, match=r"must be \[B, H, T, 3\] and contain the certified rows, got \[2, 6, 7, 2\]"):
        certify(q, k, v).error(torch.zeros(2, 6, 7, 2))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"bits": 2}, ArgumentError, "bits must be at least 53, got 2"),
        ({"softcap": -1.0}, ArgumentError, "softcap must be a positive number, got -1.0"),
        ({"scale": float("nan")}, ArgumentError, "scale must be a finite number, got nan"),
        ({"rows": [(0, 0, 0.5)]}, ArgumentError, "rows must be a number, or .batch row, head, query. of each"),
        ({"rows": "all"}, ArgumentError, "rows must be a number, or .batch row, head, query. of each, got 'all'"),
        ({"query": [[1.0]]}, ArgumentTypeError, "query must be a tensor, got list"),
        ({"value": torch.ones(1, 1, 3, 2)}, ShapeError, "query, key and value must be"),
    ],
)
def test_what_cannot_be_certified(plain, changes, error, said):
    given = {"query": torch.ones(1, 1, 2, 2), "key": torch.ones(1, 1, 2, 2), "value": torch.ones(1, 1, 2, 2), **changes}
    with pytest.raises(error, match=said):
        certify(**given)


def test_the_error_of_what_is_no_tensor(plain):
    certificate = certify(*(torch.ones(1, 1, 2, 2) for _ in range(3)))
    with pytest.raises(ArgumentTypeError, match="attended must be the result of attend or a tensor .B, H, T, E., got NoneType"):
        certificate.error(None)

"""Positions as values: golden numbers, the conversion between pairings, relativity, and that nothing is remembered."""

import pytest
import torch
from flint import arb
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from headwise.attention.position import NOPE, Alibi, RelativeBuckets, Rotary, add_position_bias
from headwise.errors import ArgumentError
from tests.attention.problem import agree, normal

B, N, T, D = 2, 3, 5, 6


def places(first: int, count: int = T) -> torch.Tensor:
    return torch.arange(first, first + count)[None]


def test_no_position_changes_nothing():
    x = normal(B, N, T, D)
    assert NOPE.rotate(x, places(7)) is x
    assert NOPE.bias(torch.zeros(B, dtype=torch.int64), N, torch.float64) is None


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_pairs_turn_by_the_angle_of_the_paper(pairing):
    """(x1, x2) becomes (x1 cos - x2 sin, x1 sin + x2 cos), by p · base^(-2m/D); cosines from ball arithmetic, far out too."""
    x = normal(1, 1, 1, D)
    for p in (0, 1, 5, 1_000_003):
        turned = Rotary(base=77.0, pairing=pairing).rotate(x, torch.tensor([[p]]))[0, 0, 0]
        for m in range(D // 2):
            first, second = (m, m + D // 2) if pairing == "halves" else (2 * m, 2 * m + 1)
            angle = p * arb(77) ** (arb(-2 * m) / D)
            a, b = (arb(float(x[0, 0, 0, i])) for i in (first, second))
            limit = 2**-52 * (8 + 4 * p)  # the angle is rounded once, in float64
            assert abs(float(turned[first]) - float(a * angle.cos() - b * angle.sin())) <= limit
            assert abs(float(turned[second]) - float(a * angle.sin() + b * angle.cos())) <= limit


def test_the_pairings_are_one_but_for_the_order_of_features():
    x, at = normal(B, N, T, D), places(4)
    order = torch.tensor([0, 2, 4, 1, 3, 5])
    halves, neighbours = Rotary(pairing="halves").rotate(x[..., order], at), Rotary(pairing="neighbours").rotate(x, at)
    assert torch.equal(halves, neighbours[..., order])
    assert not torch.allclose(Rotary(pairing="halves").rotate(x, at), neighbours)


@pytest.mark.parametrize("rotary", [Rotary(base=50.0), Rotary(base=50.0, pairing="neighbours"), Rotary(width=4)])
def test_scores_depend_on_the_distance_alone(rotary):
    q, k = normal(B, N, T, D, seed=1), normal(B, N, T, D, seed=2)

    def score(shift_q, shift_k):
        return torch.einsum("bntd,bnsd->bnts", rotary.rotate(q, places(shift_q)), rotary.rotate(k, places(shift_k)))

    agree(score(0, 0), score(90, 90), 2**-52 * 90 * 64)
    assert (score(0, 0) - score(1, 0)).abs().amax() > 0.1


def test_a_part_turns_and_the_rest_stays():
    x = normal(B, N, T, D)
    turned = Rotary(width=4).rotate(x, places(3))
    assert torch.equal(turned[..., 4:], x[..., 4:])
    assert torch.equal(turned[..., :4], Rotary().rotate(x[..., :4], places(3)))
    assert Rotary(width=0).rotate(x, places(3)).equal(x)


def test_nothing_is_remembered_between_calls():
    """Same length, other start, other base, other width: each is computed anew (tables keyed by length alone were wrong)."""
    x = normal(1, 1, 1, D)
    found = [Rotary(base, width).rotate(x, torch.tensor([[p]])) for p in (0, 5) for base in (10.0, 1e4) for width in (4, 6)]
    assert torch.equal(found[0], x)
    assert len(torch.stack(found[4:]).flatten(1).unique(dim=0)) == 4


def test_each_batch_row_stands_for_itself():
    x = normal(B, N, T, D)
    turned = Rotary().rotate(x, torch.stack([places(0)[0], places(9)[0]]))
    assert torch.equal(turned[1:], Rotary().rotate(x[1:], places(9)))
    assert torch.equal(turned[:1], Rotary().rotate(x[:1], places(0)))


def test_half_precision_turns_in_float32():
    x = normal(1, 1, 1, 4, dtype=torch.bfloat16)
    turned = Rotary().rotate(x, torch.tensor([[1000]]))
    assert turned.dtype == torch.bfloat16
    agree(turned, Rotary().rotate(x.double(), torch.tensor([[1000]])), 2**-8 * float(x.abs().max()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rotary(base=0.0), r"base must be positive, got 0\.0\. Most models use 10000\."),
        (lambda: Rotary(width=3), r"width must be even, since features are rotated in pairs, got 3\. Choose 4 or leave it out\."),
        (lambda: Rotary(pairing="thirds"), r"pairing must be 'halves' or 'neighbours', got 'thirds'\. Llama pairs halves\."),
        (
            lambda: Rotary().rotate(torch.zeros(1, 1, 1, 5), places(0, 1)),
            r"width must be even and at most that of a head, got 5 and 5\. Pass Rotary\(width=\.\.\.\)",
        ),
        (lambda: RelativeBuckets(torch.zeros(3, 2)), r"table must be \[buckets, heads\], 4 buckets or more, as many each way, got \[3, 2\]\. T5 has 32\."),
        (lambda: RelativeBuckets(torch.zeros(7, 2)), r"table must be \[buckets, heads\], 4 buckets or more, as many each way, got \[7, 2\]"),
        (lambda: RelativeBuckets(torch.zeros(1, 2), bidirectional=False), r"table must be \[buckets, heads\], 2 buckets or more"),
        (lambda: RelativeBuckets(torch.zeros(32, 2), 8), r"max_distance must exceed 8, the distances with a bucket each, got 8\. T5 takes 128\."),
    ],
)
def test_what_no_position_can_be_is_refused(make, message, plain):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_slopes_are_those_of_the_authors():
    assert Alibi().slopes_of(8) == tuple(2.0**-n for n in range(1, 9))
    assert Alibi().slopes_of(3) == (1 / 16, 1 / 256, 1 / 4)
    assert Alibi().slopes_of(1) == (2.0**-8,)
    assert Alibi((0.5, 3.0)).slopes_of(2) == (0.5, 3.0)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 12, 16, 20, 33])
def test_slopes_are_those_of_bloom(heads):
    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    agree(torch.tensor(Alibi().slopes_of(heads)), theirs, 2**-23)


def test_alibi_counts_from_the_query_wherever_it_stands():
    """Two queries behind three earlier keys: query 0 stands at key 3."""
    position_bias = Alibi((1.0, 10.0)).bias(torch.tensor([3, 0]), 2, torch.float64).tile(slice(0, 2), slice(0, 5))
    assert position_bias[0, 0].tolist() == [[-3, -2, -1, 0, -1], [-4, -3, -2, -1, 0]]
    assert position_bias[0, 1].tolist() == [[-30, -20, -10, 0, -10], [-40, -30, -20, -10, 0]]
    assert position_bias[1, 0].tolist() == [[0, -1, -2, -3, -4], [-1, 0, -1, -2, -3]]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("count", [4, 6, 10, 32, 64])
@pytest.mark.parametrize("max_distance", [40, 128, 1000])
def test_buckets_are_those_of_t5(count, max_distance, bidirectional):
    ahead = torch.arange(-3000, 3000)
    theirs = T5Attention._relative_position_bucket(ahead, bidirectional, count, max_distance)
    assert torch.equal(RelativeBuckets(torch.zeros(count, 1), max_distance, bidirectional).bucket(ahead), theirs)


def test_the_fewest_buckets_there_can_be():
    assert RelativeBuckets(torch.zeros(2, 1), 9, bidirectional=False).bucket(torch.arange(-3, 3)).tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("position", [Alibi(), RelativeBuckets(normal(8, N), 9)])
@pytest.mark.parametrize("offset", [[2, 2], [0, 7]])
def test_a_tile_is_a_part_of_the_whole(position, offset):
    position_bias = position.bias(torch.tensor(offset), N, torch.float64)
    whole = position_bias.tile(slice(0, 5), slice(0, 11))
    assert torch.equal(position_bias.tile(slice(1, 4), slice(3, 10)), whole[:, :, 1:4, 3:10])
    assert list(whole.shape) == [1 if len(set(offset)) == 1 else 2, N, 5, 11]


def test_biases_stay_in_tiles_until_one_of_them_learns():
    offset, bias = torch.zeros(B, dtype=torch.int64), normal(B, 1, 1, 7)
    fixed = RelativeBuckets(normal(8, N), 9).bias(offset, N, torch.float64)
    learns = RelativeBuckets(normal(8, N).requires_grad_(), 9).bias(offset, N, torch.float64)
    right = fixed.tile(slice(0, 5), slice(0, 7)) + bias
    assert add_position_bias(bias, None, 5, 7) is bias
    assert add_position_bias(None, fixed, 5, 7) is fixed
    both = add_position_bias(bias, fixed, 5, 7)
    assert torch.equal(both.tile(slice(1, 3), slice(2, 7)), right[:, :, 1:3, 2:7])
    for position_bias, other in ((learns, None), (learns, bias), (fixed, bias.clone().requires_grad_())):
        whole = add_position_bias(other, position_bias, 5, 7)
        assert whole.requires_grad
        assert torch.equal(whole, fixed.tile(slice(0, 5), slice(0, 7)) if other is None else right)
    with torch.no_grad():
        assert add_position_bias(None, learns, 5, 7) is learns

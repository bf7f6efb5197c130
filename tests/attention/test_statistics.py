"""Every statistic, worked out by hand on rows small enough to do so; the rule that each obeys; what `hw.statistics` says of it."""

from math import inf, log, nan

import pytest
import torch

import headwise as hw
from headwise.attention.attend import attend
from headwise.catalog import entries
from tests.attention.backends import every_backend
from tests.attention.problem import EVERY, Problem, agree, normal
from tests.attention.rounding import allowed

# Four keys with scores log 1, log 2, log 5 and, hidden, log 9: the row is 1/8, 2/8, 5/8, 0. It stands at position 2.
SHARES = (1, 2, 5, 9)
HALF_SINK = log(8)  # as large as all keys together: the row is 1/16, 2/16, 5/16, 0 and the sink 1/2
BY_HAND = {
    "entropy": (-(log(1 / 8) / 8 + log(2 / 8) / 4 + 5 / 8 * log(5 / 8)), -(log(1 / 16) / 16 + log(1 / 8) / 8 + 5 / 16 * log(5 / 16))),
    "max_weight": (5 / 8, 5 / 16),
    "peak": (2, 2),
    "participation": (64 / 30, 256 / 30),
    "distance": (2 / 8 + 2 / 8, 2 / 16 + 2 / 16),
    "first": (1 / 8, 1 / 16),
    "previous": (2 / 8, 2 / 16),
    "self": (5 / 8, 5 / 16),
    "sink": (0, 1 / 2),
    "segment": ([3 / 8, 0, 5 / 8], [3 / 16, 0, 5 / 16]),
}


def four_keys(backend, **options):
    """Segments: keys 0 and 1 are the first span, key 2 the third, key 3 is in none."""
    key = torch.tensor([log(share) for share in SHARES], dtype=torch.float64)[None, None, :, None]
    one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    options = {"query_offset": 2, "mask": torch.tensor([True, True, True, False])[None], "segments": torch.tensor([[0, 0, 2, -1]]), **options}
    return attend(one, key, key, **options, scale=1.0, statistics=EVERY, backend=backend)


@every_backend
@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(backend, name):
    bare, sunk = BY_HAND[name]
    for found, right in ((four_keys(backend), bare), (four_keys(backend, sink=torch.tensor([HALF_SINK], dtype=torch.float64)), sunk)):
        assert found.statistics[name][0, 0, 0].tolist() == pytest.approx(right, abs=1e-12)


@every_backend
def test_received_by_hand(backend):
    """Two rows over three keys: 1/2, 1/2, 0 and 1/4, 1/4, 2/4."""
    key = torch.tensor([0, 0, log(2)], dtype=torch.float64)[None, None, :, None]
    query = torch.ones(1, 1, 2, 1, dtype=torch.float64)
    found = attend(query, key, key, scale=1.0, causal=True, statistics="received", backend=backend)
    assert found.statistics["received"][0, 0].tolist() == pytest.approx([3 / 4, 3 / 4, 1 / 2])


@every_backend
@pytest.mark.parametrize(("sink", "lse", "share"), [(None, -inf, nan), (1.5, 1.5, 1.0)])
def test_a_row_that_sees_nothing(backend, sink, lse, share):
    found = four_keys(backend, mask=torch.zeros(1, 1, dtype=torch.bool), **({} if sink is None else {"sink": torch.tensor([sink], dtype=torch.float64)}))
    assert found.output.item() == 0
    assert found.lse.item() == pytest.approx(lse, rel=1e-15)
    for name, number in found.statistics.items():
        right = {"sink": share, "peak": -1, "received": 0}.get(name, nan)
        assert number.flatten().tolist() == pytest.approx([right] * number.numel(), nan_ok=True), name


@every_backend
@pytest.mark.parametrize(
    ("offset", "previous", "own", "distance"), [(-2, 0, 0, 3.5), (0, 0, 1 / 8, 1.5), (1, 1 / 8, 2 / 8, 0.75), (4, 0, 0, 2.5), (9, 0, 0, 7.5)]
)
def test_positions_outside_the_keys_have_no_key_of_their_own(backend, offset, previous, own, distance):
    """The mean key is 12/8; key 3, which is hidden, has weight 0."""
    found = {name: x.item() for name, x in four_keys(backend, query_offset=offset).statistics.items() if x.numel() == 1}
    assert found["previous"] == pytest.approx(previous)
    assert found["self"] == pytest.approx(own)
    assert found["distance"] == pytest.approx(distance)


@every_backend
def test_the_first_of_equals_is_the_peak(backend):
    key = torch.zeros(1, 1, 600, 1)
    key[:, :, [170, 333, 599]] = 2
    found = attend(torch.ones(1, 1, 300, 1), key, key, statistics="peak", backend=backend)
    assert (found.statistics["peak"] == 170).all()


@every_backend
def test_a_row_that_spreads_evenly_and_one_that_does_not(backend):
    """Of n keys alike: entropy log n, n in effect; of one: 0 and 1."""
    query, key = torch.zeros(1, 1, 7, 2), normal(1, 1, 7, 2, dtype=torch.float32)
    found = attend(query, key, key, causal=True, statistics=["entropy", "participation", "max_weight", "distance"], backend=backend).statistics
    n = torch.arange(1, 8)
    torch.testing.assert_close(found["entropy"][0, 0], n.log())
    torch.testing.assert_close(found["participation"][0, 0], n.float())
    torch.testing.assert_close(found["max_weight"][0, 0], 1 / n)
    torch.testing.assert_close(found["distance"][0, 0], (n - 1) / 2)


@every_backend
@pytest.mark.parametrize("loud", [60.0, 500.0])
def test_a_sink_that_takes_nearly_all(backend, loud):
    """Entropy and the rest go to 0 and stay numbers; even where float32 has no weight left to tell."""
    sink = torch.tensor([loud])
    key = normal(1, 1, 5, 2, dtype=torch.float32)
    found = attend(torch.zeros(1, 1, 5, 2), key, key, sink=sink, statistics="all", backend=backend)
    torch.testing.assert_close(found.lse, sink.expand(1, 1, 5))
    assert (found.statistics["sink"] == 1).all()
    for name in ("entropy", "max_weight", "distance", "first", "previous", "self"):
        assert (found.statistics[name] >= 0).all(), name
        assert (found.statistics[name] < 1e-20).all(), name
    assert (found.statistics["participation"] > 1e30).all()
    assert (found.statistics["peak"] == 0).all()


@every_backend
def test_labels_of_segments(backend):
    """Spans are numbered from 0; a number that no key has is an empty span, negative ones are none; no keys have no spans."""
    query, key = torch.zeros(2, 1, 2, 3), normal(2, 1, 4, 3, dtype=torch.float32)
    for labels, right in (
        ([[0, 0, 0, 1], [1, 1, -1, -7]], [[0.75, 0.25], [0, 0.5]]),
        ([[3, 3, -1, -1], [0, 0, 0, 0]], [[0, 0, 0, 0.5], [1, 0, 0, 0]]),
        ([[-1] * 4, [-2] * 4], [[], []]),
    ):
        found = attend(query, key, key, statistics="segment", segments=torch.tensor(labels), backend=backend).statistics["segment"]
        torch.testing.assert_close(found, torch.tensor(right)[:, None, None].expand(2, 1, 2, -1))
    none = attend(query, key[:, :, :0], key[:, :, :0], statistics="segment", segments=torch.zeros(2, 0, dtype=torch.long), backend=backend)
    assert list(none.statistics["segment"].shape) == [2, 1, 2, 0]


@every_backend
@pytest.mark.parametrize("keys", [0, 1, 2])
def test_no_key_or_hardly_any(backend, keys):
    query, key = normal(1, 2, 3, 4, dtype=torch.float32), normal(1, 1, keys, 4, dtype=torch.float32)
    found = attend(query, key, key, query_offset=0, statistics=EVERY, segments=torch.zeros(1, keys, dtype=torch.long), backend=backend).statistics
    right = attend(
        query.double(), key.double(), key.double(), query_offset=0, statistics=EVERY, segments=torch.zeros(1, keys, dtype=torch.long), backend="reference"
    )
    for name, number in found.items():
        torch.testing.assert_close(number.double(), right.statistics[name].double(), equal_nan=True, atol=1e-6, rtol=1e-6)
    if keys == 0:
        assert all(found[name].isnan().all() for name in ("entropy", "first", "sink"))
        assert (found["peak"] == -1).all()
        assert list(found["received"].shape) == [1, 2, 0]


@every_backend
def test_statistics_keep_the_contract_on_ordinary_numbers(backend):
    """Within 1e-5 · (1 + |x|) of float64, and each of them moves with the weights."""
    q, k, v = (normal(2, heads, n, 16, seed=seed, dtype=torch.float32) for seed, (heads, n) in enumerate([(4, 150), (2, 211), (2, 211)]))
    problem = Problem(q, k, v, {"causal": True, "sink": normal(4, seed=5, dtype=torch.float32), "segments": torch.arange(211).expand(2, 211) // 50})
    found, right = problem.run(backend, EVERY), problem.double().run("reference", EVERY)
    other = problem.having(scale=-0.6).run(backend, EVERY)
    for name, number in found.statistics.items():
        agree(number, right.statistics[name], 0.0 if name == "peak" else 1e-5 * (1 + right.statistics[name].abs()), name)
        assert (number != other.statistics[name]).double().mean() > 0.5, name


@every_backend
def test_what_adds_up(backend):
    """Spans and sink are 1; what keys receive is what rows give; the square of the largest weight is no more than the sum of squares."""
    q, k, v = (normal(2, heads, n, 8, seed=seed) for seed, (heads, n) in enumerate([(4, 11), (2, 13), (2, 13)]))
    problem = Problem(q, k, v, {"causal": True, "sink": normal(4, seed=5), "segments": torch.arange(13).expand(2, 13) // 5})
    found = problem.run(backend, EVERY).statistics
    one = torch.ones(2, 4, 11, dtype=torch.float64)
    torch.testing.assert_close(found["segment"].sum(-1) + found["sink"], one)
    torch.testing.assert_close(found["received"].sum(-1), (1 - found["sink"]).sum(-1))
    assert (found["participation"] * found["max_weight"] ** 2 <= 1 + 1e-12).all()


@every_backend
def test_asking_for_one_or_for_all_gives_the_same(backend):
    q, k, v = (normal(2, heads, n, 8, seed=seed, dtype=torch.float32) for seed, (heads, n) in enumerate([(4, 11), (2, 13), (2, 13)]))
    problem = Problem(q, k, v, {"window": (5, 2), "sink": normal(4, seed=5, dtype=torch.float32), "segments": torch.arange(13).expand(2, 13) // 5})
    everything, fine = problem.run(backend, EVERY), allowed(problem)
    for name, number in everything.statistics.items():
        alone = problem.run(backend, name)
        assert list(alone.statistics) == [name]
        agree(alone.statistics[name], number, 0.0 if name == "peak" else fine.statistics[name], name)
        agree(alone.output, everything.output, fine.output, "output")


def test_the_list_says_what_each_is():
    listed = hw.statistics()
    assert list(listed) == sorted([*BY_HAND, "received"])
    assert listed == entries("headwise.attention.statistics")
    for name, entry in listed.items():
        assert entry.statement.endswith("."), name
        assert entry.formula, name
    assert {name for name, entry in listed.items() if entry.opt_in} == {"segment", "received"}
    assert {name for name, entry in listed.items() if entry.needs_segments} == {"segment"}
    assert {name: entry.unit for name, entry in listed.items() if entry.unit} == {
        "distance": "tokens",
        "entropy": "nats",
        "participation": "keys",
        "peak": "key",
        "received": "rows",
    }

"""Biases by distance at one number a diagonal: the model's own code, the numbers of the full tensor, none of its memory."""

import pytest
import torch
from torch.nn.functional import embedding
from transformers import T5Config, T5ForConditionalGeneration

import headwise as hw
from headwise.models.masks import diagonal_bias as diagonals
from headwise.models.masks.diagonal_bias import DiagonalBias, DiagonalTensor, DistanceMode, are_long
from tests.models.tiny import drawn


class DistanceProblem:
    busy = False


@pytest.fixture
def short(monkeypatch):
    """Planes of any size are kept by diagonal."""
    monkeypatch.setattr(diagonals, "LEAST", 1)


def positions(queries=5, keys=7, start=2):
    return torch.arange(queries)[:, None] + start, torch.arange(keys)[None, :]


def buckets(query, key):
    """As T5 makes them, with in-place sums and likes."""
    away = key - query
    found = torch.zeros_like(away)
    found += (away > 0).to(torch.long) * 8
    away = torch.abs(away)
    large = 4 + (torch.log(away.float() / 4 + 1e-6) * 3).to(torch.long)
    large = torch.min(large, torch.full_like(large, 7))
    found += torch.where(away < 4, away, large)
    return found


@pytest.mark.parametrize(("queries", "keys"), [(5, 7), (7, 5), (1, 9), (6, 6)])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_done_cell_by_cell_is_done_by_diagonal(short, queries, keys, turned):
    query, key = positions(queries, keys)
    table = torch.randn(16, 3)
    if turned:
        query, key = key, query
    right = embedding(buckets(query, key), table).permute(2, 0, 1).unsqueeze(0)
    with DistanceMode(DistanceProblem()):
        found = embedding(buckets(query, key), table).permute(2, 0, 1).unsqueeze(0)
    assert isinstance(found, DiagonalTensor)
    assert found.line.numel() == 3 * (queries + keys - 1)
    assert torch.equal(found.whole(), right)
    plane = found.plane()
    for rows, columns in ((slice(0, queries), slice(0, keys)), (slice(0, 1), slice(1, keys)), (slice(queries // 2, queries), slice(0, 1))):
        assert torch.equal(plane.tile(rows, columns), right[:, :, rows, columns])


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.sum(-1),
        lambda x: x + torch.arange(35).reshape(5, 7),
        lambda x: x[:, 1:],
        lambda x: x.transpose(0, 1) + 1,
        lambda x: torch.cat([x, x]),
        lambda x: x[1:] * 2,
        lambda x: x.unsqueeze(-1).expand(5, 7, 2),
    ],
)
def test_anything_else_gets_the_tensor(short, use):
    query, key = positions()
    right = use(key - query)
    with DistanceMode(DistanceProblem()):
        found = use(key - query)
    assert torch.equal(found.whole() if isinstance(found, DiagonalTensor) else found, right)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.tensor([[0, 1, 3]]), torch.arange(4)[:, None]),
        (torch.arange(3)[None], torch.arange(3)[None]),
        (torch.arange(3.0)[None], torch.arange(4.0)[:, None]),
        (torch.arange(6).reshape(2, 1, 3), torch.arange(4)[None, :, None]),
    ],
)
def test_what_is_no_difference_of_positions_is_left_alone(short, one, other):
    with DistanceMode(DistanceProblem()):
        found = one - other
    assert not isinstance(found, DiagonalTensor)
    assert torch.equal(found, one - other)


def test_what_is_written_into_a_plane_stays(short):
    right = torch.zeros(1, 2, 3, 4)
    with DistanceMode(DistanceProblem()):
        found = torch.zeros(1, 2, 3, 4)
        assert isinstance(found, DiagonalTensor)
        found[:, 1, 2] = 5.0
        found += 1
    right[:, 1, 2] = 5.0
    assert torch.equal(found.whole(), right + 1)
    assert torch.equal((found * 2).sum(), (right + 1).sum() * 2)


def test_small_planes_are_left_alone():
    query, key = positions()
    with DistanceMode(DistanceProblem()):
        assert not isinstance(key - query, DiagonalTensor)
    assert are_long({"input_ids": torch.zeros(1, 2048)})
    assert not are_long({"input_ids": torch.zeros(4096, 2047), "labels": None})


def test_t5_has_a_bias_by_diagonal_and_the_same_numbers(monkeypatch):
    config = T5Config(
        d_model=24, d_kv=4, d_ff=20, num_layers=2, num_heads=6, vocab_size=97, relative_attention_num_buckets=8, relative_attention_max_distance=20
    )
    model = hw.open_model(drawn(T5ForConditionalGeneration(config)))
    given = {"input_ids": torch.randint(3, 97, (1, 31)), "decoder_input_ids": torch.randint(3, 97, (1, 23))}
    plain = model.run(given)
    monkeypatch.setattr(diagonals, "LEAST", 1)
    run = hw.open_model(model.hf).run(given)
    assert isinstance(run._stored_call(0).call.bias, DiagonalBias)
    assert not any("position bias" in note for note in run.notes)
    assert any("position bias" in note for note in plain.notes)
    for part in ("encoder.self", "decoder.self"):
        for layer in range(2):
            torch.testing.assert_close(run.weights(layer, 4, part=part), plain.weights(layer, 4, part=part), atol=2e-6, rtol=0)
    assert run.proof.passed, str(run.proof)

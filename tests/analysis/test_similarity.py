"""Heads that are the same are found to be, by where they look and by what they write."""

import math

import pytest
import torch

import headwise as hw
from headwise.analysis.similarity import clusters
from headwise.errors import ArgumentError
from tests.models.tiny import build, ids

TEXT = ids(batch=1, length=12)


def tied(seed: int = 0):
    """Head 4 of layer 1 reads and writes as head 1 does, and head 2 of layer 1 writes twice that in the other direction."""
    hf = build("gpt2", seed)
    with torch.no_grad():
        attention = hf.transformer.h[1].attn
        attention.c_attn.weight.unflatten(1, (3, 6, -1))[:, :, 4] = attention.c_attn.weight.unflatten(1, (3, 6, -1))[:, :, 1]
        attention.c_attn.bias.unflatten(0, (3, 6, -1))[:, 4] = attention.c_attn.bias.unflatten(0, (3, 6, -1))[:, 1]
        attention.c_attn.weight.unflatten(1, (3, 6, -1))[:, 2, 2] = -2 * attention.c_attn.weight.unflatten(1, (3, 6, -1))[:, 2, 1]
        attention.c_attn.bias.unflatten(0, (3, 6, -1))[2, 2] = -2 * attention.c_attn.bias.unflatten(0, (3, 6, -1))[2, 1]
        attention.c_attn.weight.unflatten(1, (3, 6, -1))[:, :2, 2] = attention.c_attn.weight.unflatten(1, (3, 6, -1))[:, :2, 1]
        attention.c_attn.bias.unflatten(0, (3, 6, -1))[:2, 2] = attention.c_attn.bias.unflatten(0, (3, 6, -1))[:2, 1]
        blocks = attention.c_proj.weight.unflatten(0, (6, -1))
        blocks[4] = blocks[1]
        blocks[2] = blocks[1]
    return hw.open_model(hf)


@pytest.mark.parametrize("of", ["pattern", "write"])
def test_heads_that_are_the_same(of):
    found = hw.similar(tied(), TEXT, of)
    assert found.similarity.shape == (18, 18)
    for a, b in (("1.1", "1.4"), ("1.1", "1.2"), ("1.4", "1.2")):
        assert float(found.similarity.sel(one=a, other=b)) == pytest.approx(1, abs=1e-6)
    assert float(found.similarity.sel(one="1.1", other="0.3")) < 0.95
    same = found.cluster.sel(one="1.1")
    assert (found.cluster.sel(one="1.4") == same) and (found.cluster.sel(one="1.2") == same)
    assert torch.equal(torch.from_numpy(found.similarity.values), torch.from_numpy(found.similarity.values.T.copy()))


def test_patterns_are_compared_by_jensen_and_shannon():
    model = hw.open_model(build("llama"))
    found, run = hw.similar(model, TEXT), model.run(TEXT)
    a, b = (run.weights(layer, head).double() for layer, head in ((0, 1), (2, 4)))
    total = 0.0
    for one, other in zip(a, b, strict=True):
        for x, y in zip(one.tolist(), other.tolist(), strict=True):
            middle = (x + y) / 2
            total += sum(0.5 * w * math.log(w / middle) for w in (x, y) if w > 0)
    assert float(found.similarity.sel(one="0.1", other="2.4")) == pytest.approx(1 - total / 12 / math.log(2), abs=1e-5)


def test_writes_are_compared_by_their_second_moments():
    hf = build("llama")
    model = hw.open_model(hf)
    read: list[torch.Tensor] = []
    for layer in (0, 2):
        hf.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(lambda module, args: read.append(args[0]))
    hf(TEXT)
    moments = []
    for z, layer, head in zip(read, (0, 2), (1, 4), strict=True):
        words = z[0].detach().double().unflatten(-1, (6, -1))[:, head]
        written = words @ hf.model.layers[layer].self_attn.o_proj.weight.detach().double().t().unflatten(0, (6, -1))[head]
        moments.append(written.t() @ written)
    right = (moments[0] * moments[1]).sum() / moments[0].norm() / moments[1].norm()
    found = hw.similar(model, TEXT, "write")
    assert float(found.similarity.sel(one="0.1", other="2.4")) == pytest.approx(float(right), abs=1e-5)


def test_several_texts_are_one_longer_measure():
    model = hw.open_model(build("llama"))
    texts = [ids(batch=1, length=12, seed=1), ids(batch=1, length=7, seed=2)]
    both, alone = hw.similar(model, texts), [hw.similar(model, text) for text in texts]
    right = (alone[0].similarity * 12 + alone[1].similarity * 7) / 19
    assert float(abs(both.similarity - right).max()) < 1e-9


def test_clusters_are_as_near_as_asked():
    matrix = torch.full((4, 4), 0.2, dtype=torch.float64)
    matrix[:2, :2] = matrix[2:, 2:] = 0.8
    matrix.fill_diagonal_(1)
    assert clusters(matrix, 0.5).tolist() == [0, 0, 1, 1]
    assert clusters(matrix, 0.9).tolist() == [0, 1, 2, 3]
    assert clusters(matrix, 0.1).tolist() == [0, 0, 0, 0]


def test_what_cannot_be_compared():
    with pytest.raises(ArgumentError, match="criterion must be one of pattern, write, got 'key'"):
        hw.similar(hw.open_model(build("llama")), TEXT, "key")


def test_old_names_of_parameters_still_work():
    model, seen = hw.open_model(build("llama")), []
    with pytest.warns(DeprecationWarning, match=r"similar\((of|near|tell)=\.\.\.\) is deprecated") as warned:
        old = hw.similar(model, TEXT, of="write", near=0.9, tell=lambda done, total: seen.append((done, total)))
    new = hw.similar(model, TEXT, criterion="write", min_similarity=0.9)
    assert len(warned) == 3 and seen == [(1, 1)] and old.identical(new)

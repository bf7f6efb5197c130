"""Models that accelerate splits over devices, memory and disk work as they are."""

import pytest
import torch
from accelerate import cpu_offload, disk_offload, dispatch_model

import headwise as hw
from headwise.models.layout import resident_weight
from tests.models.tiny import build, ids


def to_memory(hf, _):
    return cpu_offload(hf, execution_device=torch.device("cpu"))


def to_disk(hf, folder):
    disk_offload(hf, str(folder), execution_device=torch.device("cpu"))
    return hf


def by_map(hf, folder):
    places = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "disk"}
    return dispatch_model(hf, places | {"model.norm": "cpu", "lm_head": "cpu"}, main_device="cpu", offload_dir=str(folder))


@pytest.mark.filterwarnings("ignore:Some parameters are on the meta device")
@pytest.mark.parametrize("split", [to_memory, to_disk, by_map])
def test_a_split_model_is_the_whole_one(split, tmp_path):
    whole = hw.open_model(build("llama")).run(ids())
    hf = split(build("llama"), tmp_path)
    assert any(x.is_meta for x in hf.parameters())
    run = hw.open_model(hf).run(ids())
    for layer in range(3):
        assert torch.equal(run.weights(layer, 2, batch=1), whole.weights(layer, 2, batch=1))
    assert torch.equal(torch.from_numpy(run.writes["norm"].values), torch.from_numpy(whole.writes["norm"].values))
    assert run.proof.passed, str(run.proof)
    assert all(verdict.passed for verdict in run.proof.verdicts.values())
    assert any(x.is_meta for x in hf.parameters())


def test_a_weight_is_found_where_it_is_kept(tmp_path):
    hf = build("llama")
    right = hf.model.layers[1].self_attn.o_proj.weight.detach().clone()
    to_disk(hf, tmp_path)
    module = hf.model.layers[1].self_attn.o_proj
    assert module.weight.is_meta
    assert torch.equal(resident_weight(module, "weight"), right)

"""The rows of each head's query, key and value: changed one by one, they change what they should and nothing else."""

import copy

import pytest
import torch
from torch import nn
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, Olmo2Config, Olmo2ForCausalLM

import headwise as hw
from headwise.errors import ModelError
from headwise.models.inputs.encoding import encode
from headwise.models.parameters.qkv_locator import locate_qkv
from tests.models.tiny import COMMON, FAMILIES, GROUPED, VOCABULARY, Family, build, drawn, given

MORE = {
    "gpt_neox": Family("GPTNeoXConfig", "GPTNeoXForCausalLM", COMMON),  # one matrix, query, key and value of each head side by side
    "falcon": Family("FalconConfig", "FalconForCausalLM", COMMON | {"num_kv_heads": 2, "new_decoder_architecture": True}),  # by key head
    "bloom": Family("BloomConfig", "BloomForCausalLM", {"hidden_size": 24, "n_head": 6, "n_layer": 2, "vocab_size": VOCABULARY}),  # weights alone are seen
}
LINEAR = {"query": True, "key": True, "value": True}
TOKENS = torch.arange(3, 10)
pytestmark = pytest.mark.usefixtures("plain")


def found(hf, inputs=TOKENS):
    run = hw.open_model(hf).run(inputs, statistics=())
    return run, locate_qkv(hf, encode(hf, None, inputs).kwargs, run._metadata.layout)


def changed(hf, before, blocks, inputs):
    """Which heads' weights, and which heads' words, change in the first call when these parts of the parameters do."""
    other = copy.deepcopy(hf)
    for block in blocks:
        whole = other.get_parameter(block.parameter)
        whole.data = block.put(whole, block.of(whole) * 1.5 + 0.25)
    after = hw.open_model(other).run(inputs, statistics=())
    part = before._metadata.places[0].part
    heads = range(before._metadata.places[0].heads)
    one, two = (run._stored_call(0).z for run in (before, after))
    weights = {h for h in heads if not torch.equal(before.weights(0, h, part=part), after.weights(0, h, part=part))}
    return weights, {h for h in heads if not torch.equal(one[:, :, h], two[:, :, h])}


@pytest.mark.parametrize("name", ["gpt2", "phi3", "qwen3", "t5", *MORE])
def test_a_head_s_rows_change_that_head_and_no_other(name):
    family = FAMILIES.get(name) or MORE[name]
    hf = family.build()
    inputs = given(family) if family.decoder else TOKENS
    before, by_call = found(hf, inputs)
    sides = by_call[0]
    group = 6 // len(sides.key.heads)
    assert len(sides.query.heads) == 6 and len(sides.key.heads) == len(sides.value.heads) == (2 if name in ("llama", "phi3", "qwen3", "falcon") else 6)
    assert changed(hf, before, sides.query.heads[4].blocks, inputs) == ({4}, {4})
    key = 4 // group
    readers = set(range(key * group, (key + 1) * group))
    assert changed(hf, before, sides.key.heads[key].blocks, inputs) == (readers, readers)
    assert changed(hf, before, sides.value.heads[key].blocks, inputs) == (set(), readers)


@pytest.mark.parametrize("name", ["gpt2", "phi3", "gpt_oss", "bart", *MORE])
def test_every_row_of_the_projections_is_some_head_s(name):
    """Nothing is left over, nothing is claimed twice, and biases go with their rows."""
    family = FAMILIES.get(name) or MORE[name]
    hf = family.build()
    _, by_call = found(hf, given(family) if family.decoder else TOKENS)
    for sides in by_call.values():
        claimed: dict[str, list[int]] = {}
        for side in (sides.query, sides.key, sides.value):
            assert side.linear
            for own in side.heads:
                for block in own.blocks:
                    claimed.setdefault(block.parameter, []).extend(block.indices)
        for parameter, rows in claimed.items():
            axis = next(b.axis for own in sides.query.heads + sides.key.heads + sides.value.heads for b in own.blocks if b.parameter == parameter)
            assert sorted(rows) == list(range(hf.get_parameter(parameter).shape[axis])), parameter
            bias = parameter.replace(".weight", ".bias")
            assert bias in claimed or bias not in dict(hf.named_parameters())


@pytest.mark.parametrize("name", ["llama", "qwen3", "bloom"])
def test_rounding_to_bfloat16_is_no_norm(name):
    hf = (FAMILIES.get(name) or MORE[name]).build().bfloat16()
    sides = found(hf)[1][1]
    assert sides.query.linear == sides.key.linear == (name != "qwen3") and sides.value.linear


def test_a_norm_of_each_head_s_queries_is_seen_as_such():
    sides = found(build("qwen3"))[1][1]
    assert not sides.query.linear and not sides.key.linear and sides.value.linear


def test_a_norm_over_all_heads_refuses_by_name():
    sides = found(drawn(Olmo2ForCausalLM(Olmo2Config(**GROUPED))))[1][1]
    assert sides.query.refusal == "every row that head 0 depends on, another one depends on too (a norm over all heads?)"
    assert sides.query.heads == () and sides.value.refusal is None


def test_rows_that_all_heads_share_are_nobody_s():
    sizes = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4}
    experts = {"n_routed_experts": 4, "moe_intermediate_size": 8, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
    hf = drawn(DeepseekV3ForCausalLM(DeepseekV3Config(**COMMON, num_key_value_heads=6, **sizes, **experts)))
    sides = found(hf)[1][1]
    assert [block.parameter for block in sides.query.heads[2].blocks] == ["model.layers.1.self_attn.q_b_proj.weight"]
    assert [block.parameter for block in sides.key.heads[2].blocks] == ["model.layers.1.self_attn.kv_b_proj.weight"]
    assert sides.query.linear and not sides.key.linear, "keys have a part that all heads share"
    assert not set(sides.key.heads[2].blocks[0].indices) & set(sides.value.heads[2].blocks[0].indices)


def test_torch_s_own_module_has_its_rows_in_one_parameter():
    layer = nn.TransformerEncoderLayer(24, 6, 20, batch_first=True)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.5)
    run = hw.open_model(layer.eval()).run({"src": torch.randn(1, 7, 24)}, statistics=())
    sides = locate_qkv(layer, {"src": torch.randn(1, 7, 24)}, run._metadata.layout)[0]
    parts = [(b.parameter, b.axis, b.indices) for b in sides.key.heads[1].blocks]
    assert parts == [("self_attn.in_proj_weight", 0, (28, 29, 30, 31)), ("self_attn.in_proj_bias", 0, (28, 29, 30, 31))]
    assert sides.key.linear


class Unprojected(nn.Module):
    """Attention of the input itself."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(24, 24)

    def forward(self, x):
        q = x.unflatten(-1, (6, -1)).transpose(1, 2)
        return self.out(nn.functional.scaled_dot_product_attention(q, q, q).transpose(1, 2).flatten(2))


def test_queries_without_a_projection_refuse():
    x = torch.randn(1, 7, 24)
    run = hw.open_model(Unprojected().eval()).run({"x": x}, statistics=())
    sides = locate_qkv(Unprojected(), {"x": x}, run._metadata.layout)[0]
    assert "no Linear is seen to give it" in sides.query.refusal and "no Linear is seen to give it" in sides.value.refusal


def test_a_model_that_goes_another_way_is_refused():
    hf = build("bert")
    run = hw.open_model(hf).run(TOKENS, statistics=())
    short = build("bert", num_hidden_layers=2)
    with pytest.raises(ModelError, match=r"BertModel makes other attention calls when its numbers are random"):
        locate_qkv(short, encode(short, None, TOKENS).kwargs, run._metadata.layout)

"""What a head says is changed where W_O reads it: the same as in the weights, and nothing else is touched."""

import copy
from dataclasses import replace

import pytest
import torch
from transformers import AlbertConfig, AlbertModel, BitNetConfig, BitNetForCausalLM, Qwen3NextConfig, Qwen3NextForCausalLM

import headwise as hw
from headwise.errors import ArgumentError, WritesRefused
from headwise.models.hooks.z_hooks import scale_heads, with_z_hooks
from headwise.models.layout import Layout
from headwise.models.parameters.head_blocks import calls_sharing_w_o, output_block
from tests.models.tiny import COMMON, FAMILIES, GROUPED, build, drawn, given

HEADS = 6
pytestmark = pytest.mark.usefixtures("plain")
FACTORS = torch.tensor([1.0, 0.0, 1.5, -0.5, 1.0, 2.0])


def layout_of(hf, inputs):
    return hw.open_model(hf).run(inputs, statistics=())._metadata.layout


def final(outputs):
    return outputs.logits if "logits" in outputs else outputs.last_hidden_state


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5"])
def test_words_changed_as_they_run_are_words_changed_in_the_weights(name):
    hf, inputs = build(name), given(FAMILIES[name])
    layout = layout_of(hf, inputs)
    before = {key: x.clone() for key, x in hf.state_dict().items()}
    other = with_z_hooks(hf, layout, {1: HEADS}, {1: scale_heads(FACTORS)})
    by_hand = copy.deepcopy(hf)
    for head in range(HEADS):
        block = output_block(by_hand, layout.sites[1], HEADS, head)
        weight = by_hand.get_parameter(block.parameter)
        weight.data = block.put(weight, block.of(weight) * FACTORS[head])
    with torch.no_grad():
        torch.testing.assert_close(final(other(**inputs)), final(by_hand(**inputs)), rtol=1e-5, atol=1e-5)
        assert not torch.allclose(final(other(**inputs)), final(hf(**inputs)), atol=1e-2)
    assert all(torch.equal(x, before[key]) for key, x in hf.state_dict().items())
    assert all(mine is theirs for mine, theirs in zip(hf.parameters(), other.parameters(), strict=True))


def test_a_run_of_it_sees_the_changed_words():
    hf, inputs = build("llama"), given(FAMILIES["llama"])
    layout = layout_of(hf, inputs)
    other = with_z_hooks(hf, layout, {0: HEADS}, {0: scale_heads(FACTORS)})
    before, after = hw.open_model(hf).run(inputs).writes["norm"].isel(layer=0), hw.open_model(other).run(inputs).writes["norm"].isel(layer=0)
    ratio = torch.from_numpy((after / before).values)
    torch.testing.assert_close(ratio, FACTORS.abs()[None, :, None].expand_as(ratio), rtol=1e-4, atol=1e-5)


def test_one_use_of_a_layer_that_is_used_again_and_again():
    hf = drawn(AlbertModel(AlbertConfig(**COMMON, embedding_size=12)))
    inputs = given(FAMILIES["bert"])
    layout = layout_of(hf, inputs)
    assert calls_sharing_w_o(layout.sites[1], layout.sites) == (0, 1, 2)
    read = []
    other = with_z_hooks(hf, layout, {1: HEADS}, {1: scale_heads(torch.zeros(HEADS))})
    other.get_submodule(layout.sites[0].output.module).register_forward_hook(lambda m, args, out: read.append(bool((args[0] == 0).all())))
    for _ in range(2):
        other(**inputs)
    assert read == [False, True, False] * 2


def test_a_gated_layer_is_surveyed_as_often_as_before():
    """Looking for W_O behind a gate runs the layer again; the count of its uses must not notice."""
    sizes = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    config = Qwen3NextConfig(**GROUPED | {"num_hidden_layers": 4}, **sizes, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8)
    hf, inputs = drawn(Qwen3NextForCausalLM(config)), given(FAMILIES["llama"])
    layout = layout_of(hf, inputs)
    other = with_z_hooks(hf, layout, {0: HEADS}, {0: scale_heads(FACTORS)})
    run = hw.open_model(other).run(inputs)
    with torch.no_grad():
        torch.testing.assert_close(run.outputs["logits"], other(**inputs).logits, rtol=1e-3, atol=1e-3)


def test_a_part_of_the_model_run_alone_is_changed_each_time():
    hf, inputs = build("llama"), given(FAMILIES["llama"])
    other = with_z_hooks(hf, layout_of(hf, inputs), {0: HEADS}, {0: scale_heads(FACTORS)})
    with torch.no_grad():
        first, second = (other.model(**inputs).last_hidden_state for _ in range(2))
        assert torch.equal(first, second)
        assert not torch.allclose(first, hf.model(**inputs).last_hidden_state, atol=1e-2)


def test_heads_that_cannot_be_told_apart_are_refused_by_name():
    hf, inputs = drawn(BitNetForCausalLM(BitNetConfig(**GROUPED))), given(FAMILIES["llama"])
    layout = layout_of(hf, inputs)
    with pytest.raises(WritesRefused, match=r"heads of model.layers.0.self_attn cannot be separated before W_O: what .* norm over all heads"):
        with_z_hooks(hf, layout, {0: HEADS}, {0: scale_heads(FACTORS)})
    with pytest.raises(WritesRefused, match=r"writes of model.layers.0.self_attn cannot be attributed to heads: what .* norm over all heads"):
        output_block(hf, layout.sites[0], HEADS, 0)


def test_a_head_out_of_range_is_refused():
    hf = build("bert")
    site = layout_of(hf, given(FAMILIES["bert"])).sites[0]
    with pytest.raises(ArgumentError, match=r"head must be in 0..5 in encoder.layer.0.attention.self, got 6. Choose one of these."):
        output_block(hf, site, HEADS, 6)


def test_calls_that_are_read_together_are_refused():
    hf, inputs = build("bert"), given(FAMILIES["bert"])
    layout = layout_of(hf, inputs)
    joined = replace(layout.sites[0], output=replace(layout.sites[0].output, calls=(0, 1)))
    together = Layout((joined, *layout.sites[1:]))
    message = r"W_O of encoder.layer.0.attention.self must read one attention call at a time, got 2 joined. They cannot be changed one by one."
    with pytest.raises(WritesRefused, match=message):
        with_z_hooks(hf, together, {0: HEADS}, {0: scale_heads(FACTORS)})


def test_w_o_that_is_no_matrix_is_refused():
    hf, inputs = build("bert"), given(FAMILIES["bert"])
    site = layout_of(hf, inputs).sites[0]
    hf.encoder.layer[0].attention.output.dense = torch.nn.Identity()
    with pytest.raises(WritesRefused, match=r"W_O of encoder.layer.0.attention.self must be in a Linear or Conv1D, got Identity."):
        output_block(hf, site, HEADS, 0)

"""W_O is found where it is, gates included; where heads cannot be told apart the reason names the module."""

import pytest
import torch
from torch import nn
from transformers import AlbertConfig, AlbertModel, BitNetConfig, BitNetForCausalLM, Qwen3NextConfig, Qwen3NextForCausalLM

import headwise as hw
from headwise.errors import UnseenAttention, WritesRefused
from headwise.models.capture.head_separability import mixing_reason, perturb_heads
from headwise.models.capture.output_projection import InputMatch, has_token_order, match_z
from headwise.models.layout import w_o_by_head
from tests.models.tiny import COMMON, FAMILIES, GROUPED, build, drawn, given

OUTPUTS = {
    "bert": "encoder.layer.{}.attention.output.dense",  # a sibling of the module that calls
    "gpt2": "transformer.h.{}.attn.c_proj",  # a Conv1D
    "opt": "model.decoder.layers.{}.self_attn.out_proj",
    "llama": "model.layers.{}.self_attn.o_proj",
    "modernbert": "layers.{}.attn.Wo",
    "phi3": "model.layers.{}.self_attn.o_proj",
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_w_o_is_found(name):
    run = hw.open_model(build(name)).run(given(FAMILIES[name]))
    outputs = [site.output for site in run._metadata.layout.sites]
    assert [output.module for output in outputs] == [OUTPUTS[name].format(i) for i in range(3)]
    assert all(output.exact and output.use == 0 for output in outputs)


def test_w_o_of_a_layer_that_is_used_again_and_again():
    hf = drawn(AlbertModel(AlbertConfig(**COMMON, embedding_size=12)))
    run = hw.open_model(hf).run(given(FAMILIES["bert"]))
    sites = run._metadata.layout.sites
    assert len({site.output.module for site in sites}) == 1
    assert [site.output.use for site in sites] == [0, 1, 2]
    assert run.proof.passed
    assert run.statistics["layer_name"].values.tolist() == [sites[0].module] * 3


@pytest.mark.parametrize("name", ["bert", "gpt2", "opt", "phi3", "t5"])
def test_writes_and_bias_add_up_to_what_the_module_gives(name):
    """By a route of the test's own: the module's input and output, caught by hooks on the user's model."""
    hf, caught = build(name), {}
    inputs = given(FAMILIES[name])
    run = hw.open_model(hf).run(inputs)
    for site in run._metadata.layout.sites:
        hf.get_submodule(site.output.module).register_forward_hook(lambda m, args, out, i=site.index: caught.update({i: (args[0], out)}))
    with torch.no_grad():
        hf(**inputs)
    for place, site in zip(run._metadata.places, run._metadata.layout.sites, strict=True):
        read, out = caught[site.index]
        module = hf.get_submodule(site.output.module)
        writes = torch.stack([_alone(module, read, head, place.heads) for head in range(place.heads)], 2)
        measured = run.writes_of(place.part).isel(layer=place.layer)
        got = torch.from_numpy(measured["norm"].values)
        torch.testing.assert_close(got, writes.norm(dim=-1).transpose(1, 2), rtol=1e-4, atol=1e-4)
        total = writes.sum(2)
        share = torch.einsum("bthm,btm->bht", writes, total) / total.square().sum(-1)[:, None]
        torch.testing.assert_close(torch.from_numpy(measured["share"].values), share, rtol=1e-3, atol=1e-3)
        assert torch.allclose(torch.from_numpy(measured["share"].sum("head").values), torch.ones(()), atol=1e-4)
        cosine = torch.cosine_similarity(writes, out[:, :, None], dim=-1).transpose(1, 2)
        torch.testing.assert_close(torch.from_numpy(measured["cosine"].values), cosine, rtol=1e-3, atol=1e-3)


def _alone(module, read, head, heads):
    """What W_O's module gives of one head: the others' numbers set to 0, its bias taken off."""
    width = read.shape[-1] // heads
    only = torch.zeros_like(read)
    only[..., head * width : (head + 1) * width] = read[..., head * width : (head + 1) * width]
    with torch.no_grad():
        return module(only) - module(torch.zeros_like(read))


def test_a_gate_between_the_heads_and_w_o_is_part_of_what_they_write():
    sizes = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    config = Qwen3NextConfig(**GROUPED | {"num_hidden_layers": 4}, **sizes, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8)
    hf = drawn(Qwen3NextForCausalLM(config))
    run = hw.open_model(hf).run(given(FAMILIES["llama"]))
    (site,) = run._metadata.layout.sites
    assert site.output.module == "model.layers.3.self_attn.o_proj"
    assert not site.output.exact
    assert run.proof.passed
    assert run.writes["norm"].notnull().all()


def test_a_norm_over_all_heads_refuses_writes_by_name():
    hf = drawn(BitNetForCausalLM(BitNetConfig(**GROUPED)))
    run = hw.open_model(hf).run(given(FAMILIES["llama"]))
    message = r"writes of model.layers.0.self_attn cannot be attributed to heads: what model.layers.0.self_attn.o_proj reads of head \d depends on other heads"
    with pytest.raises(WritesRefused, match=message):
        _ = run.writes
    verdict = run.proof.verdicts["writes"]
    assert verdict.passed is None
    assert "norm over all heads" in verdict.sentence
    assert run.proof.passed
    assert "not checked" in str(verdict)


class Adapted(nn.Module):
    """A low-rank adapter beside W_O, as PEFT adds one."""

    def __init__(self, base):
        super().__init__()
        self.base, self.down, self.up = base, nn.Linear(24, 2, bias=False), nn.Linear(2, 24, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def test_an_adapter_that_is_not_merged_refuses_writes_by_name():
    hf = build("llama")
    hf.model.layers[1].self_attn.o_proj = Adapted(hf.model.layers[1].self_attn.o_proj)
    run = hw.open_model(drawn(hf)).run(given(FAMILIES["llama"]))
    with pytest.raises(WritesRefused, match=r"model.layers.1.self_attn cannot .* both .*o_proj.base and .*o_proj.down read what its heads say"):
        _ = run.writes


def test_no_w_o_at_all_refuses_writes_by_name():
    hf = build("llama", head_dim=6)
    for layer in hf.model.layers:
        layer.self_attn.o_proj = Narrow()
    run = hw.open_model(drawn(hf)).run(given(FAMILIES["llama"]))
    with pytest.raises(WritesRefused, match=r"model.layers.0.self_attn cannot .* no Linear or Conv1D after it reads H x E = 36 numbers a token"):
        _ = run.writes


class Narrow(nn.Module):
    """From 36 numbers to 24 without a matrix."""

    def forward(self, x):
        return x[..., :24]


def test_what_comes_first_outside_must_read_what_the_heads_say():
    """BERT's sibling, behind something that changes every number: what happens in between cannot be told from outside."""
    hf = build("bert")
    hf.encoder.layer[0].attention.self.register_forward_hook(lambda module, args, out: (out[0] * 2, *out[1:]))
    run = hw.open_model(hf).run(given(FAMILIES["bert"]))
    with pytest.raises(WritesRefused, match=r"encoder.layer.0.attention.self cannot .* reads something else than what its heads say"):
        _ = run.writes


def test_a_model_without_attention():
    from transformers import MambaConfig, MambaForCausalLM

    hf = MambaForCausalLM(MambaConfig(hidden_size=24, num_hidden_layers=1, vocab_size=97, state_size=4)).eval()
    with pytest.raises(UnseenAttention, match=r"a model must .*, got (no call|none) from MambaForCausalLM. It has no attention to show"):
        hw.open_model(hf).run(given(FAMILIES["llama"]))


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8])
def test_heads_that_are_apart(heads):
    z = torch.randn(2, heads, 5, 3, generator=torch.Generator().manual_seed(0))
    gate = torch.rand(2, 5, heads * 3, generator=torch.Generator().manual_seed(1))

    def read(words):
        return words.transpose(1, 2).flatten(2) * gate

    assert mixing_reason(read(z), heads, lambda chosen: read(perturb_heads(z, chosen))) is None


@pytest.mark.parametrize(("giver", "taker"), [(0, 1), (1, 0), (4, 2), (2, 4), (3, 4)])
def test_any_two_heads_that_mix_are_found(giver, taker):
    z = torch.randn(2, 5, 7, 3, generator=torch.Generator().manual_seed(0))

    def read(words):
        words = words.clone()
        words[:, taker] += 0.01 * words[:, giver]
        return words.transpose(1, 2).flatten(2)

    assert f"head {taker} depends on other heads too" in mixing_reason(read(z), 5, lambda chosen: read(perturb_heads(z, chosen)))


def test_numbers_in_another_order_are_no_heads():
    z = torch.randn(2, 4, 5, 3, generator=torch.Generator().manual_seed(0))

    def constant(words):
        found = words.transpose(1, 2).flatten(2).clone()
        found[..., 3:6] = 7
        return found

    assert "head 1 does not depend on z of that head" in mixing_reason(constant(z), 4, lambda chosen: constant(perturb_heads(z, chosen)))


def test_words_are_recognised_whatever_their_shape():
    z = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    words = z.transpose(1, 2).flatten(2)
    assert match_z(words, [z]) is InputMatch.EXACT
    assert match_z(words.flatten(0, 1), [z]) is InputMatch.EXACT
    assert match_z(words.to(torch.bfloat16), [z]) is InputMatch.EXACT
    assert match_z(words.transpose(0, 1).contiguous(), [z]) is InputMatch.SEQUENCE_FIRST
    assert match_z(torch.cat([words[:1], words[1:]], 1), [z[:1], z[1:]]) is InputMatch.EXACT
    assert match_z(words * 1.001, [z]) is InputMatch.OTHER
    assert match_z(words[:, :4], [z]) is InputMatch.OTHER


def test_tokens_are_in_order_by_shape():
    z = torch.zeros(2, 3, 5, 4)
    assert has_token_order(torch.zeros(2, 5, 12), [z])
    assert has_token_order(torch.zeros(10, 12), [z])
    assert not has_token_order(torch.zeros(5, 2, 12), [z])
    assert not has_token_order(torch.zeros(9, 12), [z])
    assert has_token_order(torch.zeros(1, 15, 12), [z, z[:1]])
    assert not has_token_order(torch.zeros(3, 5, 12), [z, z[:1]])


def test_blocks_of_w_o_belong_to_heads():
    linear = nn.Linear(6, 5)
    x = torch.randn(6)
    blocks = w_o_by_head(linear, 3)
    assert torch.allclose(sum(x[2 * h : 2 * h + 2] @ blocks[h] for h in range(3)) + linear.bias, linear(x), atol=1e-6)

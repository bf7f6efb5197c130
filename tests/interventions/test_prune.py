"""Pruned heads are gone: the model is smaller, says what it says with them silenced, and loads in plain transformers."""

import pytest
import torch
from transformers import AutoModelForCausalLM

import headwise as hw
from headwise.errors import ModelError
from tests.interventions.test_edits import final
from tests.models.tiny import FAMILIES, build, ids

TOKENS = ids(1, 9)
GONE = [(0, 0), (1, 1), (2, 0)]  # layer and key head: its three readers go
PRUNES = [hw.Prune(layer, head) for layer, key in GONE for head in range(3 * key, 3 * key + 3)]
pytestmark = pytest.mark.usefixtures("plain")


@pytest.mark.parametrize("name", ["llama", "qwen3", "phi3"])
def test_the_matrices_shrink_and_the_model_says_what_it_says_with_the_heads_silenced(name, tmp_path):
    model = hw.open_model(FAMILIES[name].build().double())
    pruned = model.edit(PRUNES)
    silenced = model.edit([hw.Ablate(one.layer, one.head) for one in PRUNES])
    torch.testing.assert_close(final(pruned), final(silenced), rtol=1e-9, atol=1e-9)
    assert pruned.report.passed and [verdict.passed for verdict in pruned.report.verdicts.values()] == [True] * 4
    assert "within rounding" in pruned.report.verdicts["others"].sentence
    assert pruned.hf.get_parameter("model.layers.0.self_attn.o_proj.weight").shape == (24, 12)
    assert pruned.run(TOKENS, statistics=()).statistics.sizes["head"] == 3
    pruned.save(tmp_path / "pruned")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "pruned", dtype=torch.float64)
    assert (loaded.config.num_attention_heads, loaded.config.num_key_value_heads, loaded.config.head_dim) == (3, 1, 4)
    with torch.no_grad():
        torch.testing.assert_close(loaded(TOKENS).logits, final(pruned), rtol=1e-9, atol=1e-9)


def test_a_pruned_checkpoint_from_disk_keeps_all_but_what_says_the_sizes(tmp_path):
    build("llama").save_pretrained(tmp_path / "source", max_shard_size="8KB")
    model = hw.open_model(tmp_path / "source")
    saved = model.edit(PRUNES).save(tmp_path / "pruned")
    assert sum("self_attn" in name for name in saved.changed) == len(saved.changed) == 12
    again = hw.open_model(tmp_path / "pruned")
    torch.testing.assert_close(final(again), final(model.edit(PRUNES)))
    assert {path.name for path in (tmp_path / "pruned").iterdir()} == {path.name for path in (tmp_path / "source").iterdir()} | {"headwise.json"}


ABLATE = "Use Ablate, which has the same effect without shrinking."
REFUSED = {
    "key head": ("llama", PRUNES[:2], r"Heads that share a key head must be pruned together, got 0, 1 of 0, 1, 2 in layer 0. Prune all of them."),
    "all": ("llama", [hw.Prune(0, head) for head in range(6)], r"A layer must keep at least one head, got all 6 of layer 0 pruned."),
    "count": ("llama", PRUNES[:3], r"The same number of heads must be pruned in every layer, .* got 3 in some and 0 in layer 1, 0 in layer 2."),
    "gpt2": ("gpt2", [hw.Prune(layer, 0) for layer in range(3)], r"configuration of GPT2LMHeadModel does not allow 5 heads: .embed_dim. must be divisible"),
    "bert": ("bert", [hw.Prune(layer, 0) for layer in range(3)], r"configuration of BertModel does not allow 5 heads: The hidden size"),
    "sinks": ("gpt_oss", PRUNES, r"does not allow 3 heads of the same width: it gives model.layers.0.self_attn.sinks the shape \[3\], and \[6\] is left."),
    "repeated": ("falcon", PRUNES, r"The key projection of transformer.h.0.self_attention has 2 heads, not as many as its configuration says."),
    "norm": ("olmo2", PRUNES, r"Could not find which rows belong to each head's query in model.layers.0.self_attn: every row"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_configuration_cannot_hold_is_refused_and_ablation_suggested(case):
    from transformers import FalconConfig, FalconForCausalLM, Olmo2Config, Olmo2ForCausalLM

    from tests.models.tiny import COMMON, GROUPED, drawn

    name, prunes, message = REFUSED[case]
    if name == "olmo2":
        hf = drawn(Olmo2ForCausalLM(Olmo2Config(**GROUPED)))
    elif name == "falcon":  # it repeats its key heads itself, one for each query head
        hf = drawn(FalconForCausalLM(FalconConfig(**COMMON, num_kv_heads=2, new_decoder_architecture=True)))
    else:
        hf = build(name)
    model = hw.open_model(hf)
    with pytest.raises(ModelError, match=message) as raised:
        model.edit(prunes)
    assert ABLATE in str(raised.value)


def test_shared_layers_and_modules_without_a_configuration_are_refused():
    from torch import nn
    from transformers import AlbertConfig, AlbertModel

    from tests.models.tiny import COMMON, drawn

    model = hw.open_model(drawn(AlbertModel(AlbertConfig(**COMMON, embedding_size=12))))
    with pytest.raises(ModelError, match=r"A layer must have its own weights to be pruned, but layer 1 uses .*dense.weight too."):
        model.edit([hw.Prune(layer, 0) for layer in range(3)])
    layer = nn.TransformerEncoderLayer(24, 6, 20, batch_first=True).eval()
    with pytest.raises(ModelError, match=r"A model must be one of transformers to be pruned, so that it has a configuration; got TransformerEncoderLayer."):
        hw.open_model(layer).edit(hw.Prune(0, 1), inputs={"src": torch.randn(1, 7, 24)})


def test_prune_goes_with_edits_in_the_weights_alone():
    model = hw.open_model(build("llama"))
    edited = model.edit([*PRUNES, hw.Scale(0, 4, 2.0)])
    silenced = model.edit([*(hw.Ablate(one.layer, one.head) for one in PRUNES), hw.Scale(0, 4, 2.0)])
    torch.testing.assert_close(final(edited), final(silenced), rtol=1e-4, atol=1e-4)
    with pytest.raises(
        ModelError, match=r"With Prune, all edits must be made in the weights, but MaskKeys.* is made at run time. Use Ablate instead of Prune."
    ):
        model.edit([*PRUNES, hw.MaskKeys(0, 4, keys=[0])])
    at_run = model.edit([*PRUNES, hw.MaskKeys(0, 4, keys=[0])], mode="run")
    assert at_run.hf.get_parameter("model.layers.0.self_attn.o_proj.weight").shape == (24, 24)

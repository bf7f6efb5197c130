"""Numbers and verdicts of a comparison, each against a route of the test's own; adapters, shared key heads, norms; what is refused."""

import copy

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import headwise as hw
from headwise.analysis.checkpoints.change_verdict import Thresholds
from headwise.analysis.checkpoints.checkpoint_pair import base_of, opened, tuned_of
from headwise.analysis.checkpoints.compare import compare
from headwise.errors import ArgumentError, ArgumentTypeError, CheckpointError, MissingPackage, ModelError
from tests.analysis.planted import named
from tests.models.tiny import FAMILIES, GROUPED, build, drawn, ids

pytestmark = [
    pytest.mark.usefixtures("plain"),
    pytest.mark.filterwarnings("ignore:Could not find a config file"),  # peft looks for the base's on the hub
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),  # peft asks transformers for it by the old name
]


def changed(hf, seed=1, size=0.3):
    other = copy.deepcopy(hf)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for x in other.parameters():
            x.add_(torch.randn(x.shape, generator=generator) * size)
    return other


def circuits(hf, layer, head):
    """QK and OV of a head of the tiny GPT-2, formed whole, from its own slices; biases of queries and values as one more input."""
    attention = hf.transformer.h[layer].attn
    weight, bias = attention.c_attn.weight.double(), attention.c_attn.bias.double()
    q, k, v = (torch.cat([weight[:, i : i + 4], bias[None, i : i + 4]]) for i in (4 * head, 24 + 4 * head, 48 + 4 * head))
    return q @ k[:-1].t(), v @ attention.c_proj.weight.double()[4 * head : 4 * head + 4]


def test_numbers_are_those_of_the_matrices_formed_whole():
    one = build("gpt2")
    two = changed(one)
    found = compare(one, two, muted=0.0, rewired=-1.0)
    with torch.no_grad():
        for layer in range(3):
            before, after = ([circuits(hf, layer, head) for head in range(6)] for hf in (one, two))
            for place, (size, cosine) in enumerate((("size", "qk"), ("gain", "ov"))):
                ratio = torch.stack([y[place].norm() / x[place].norm() for x, y in zip(before, after, strict=True)])
                median = min(ratio.sort().values[2:4], key=lambda x: abs(x.log()))
                torch.testing.assert_close(torch.from_numpy(found[size].values[layer]), ratio / median)
                alike = torch.stack([(x[place] * y[place]).sum() / (x[place].norm() * y[place].norm()) for x, y in zip(before, after, strict=True)])
                torch.testing.assert_close(torch.from_numpy(found[cosine].values[layer]), alike)
    assert torch.allclose(torch.from_numpy((found["temperature"] * found["size"]).values), torch.ones(()).double())


def test_from_disk_as_in_memory(tmp_path):
    one = build("llama")
    two = changed(one)
    for name, hf in (("one", one), ("two", two)):
        hf.save_pretrained(tmp_path / name, max_shard_size="6KB")
    here, there = compare(one, two), compare(tmp_path / "one", tmp_path / "two")
    for name in ("gain", "ov", "qk", "size"):
        torch.testing.assert_close(torch.from_numpy(there[name].values), torch.from_numpy(here[name].values), rtol=1e-6, atol=1e-6)
    assert there.attrs["base"] == str(tmp_path / "one") and there["gain"].dims == ("layer", "head")


def test_what_scales_a_whole_layer_is_no_change_of_a_head():
    one = build("llama")
    two = copy.deepcopy(one)
    with torch.no_grad():
        two.model.layers[1].self_attn.o_proj.weight.mul_(0.3)
        two.model.layers[2].self_attn.q_proj.weight.mul_(3.0)
    assert named(compare(one, two)) == {}


def test_a_key_head_that_changed_concerns_all_that_read_it():
    one = build("llama")
    two = copy.deepcopy(one)
    with torch.no_grad():
        two.model.layers[1].self_attn.k_proj.weight[4:].mul_(0.4)
        two.model.layers[0].self_attn.v_proj.weight[:4].normal_()
    found = named(compare(one, two, muted=0.0, amplified=100.0))
    assert found == {(1, 3): "tempered", (1, 4): "tempered", (1, 5): "tempered", (0, 0): "rewired", (0, 1): "rewired", (0, 2): "rewired"}


def test_the_size_of_normalised_queries_is_taken_after_the_norm():
    one = build("qwen3")
    two = copy.deepcopy(one)
    with torch.no_grad():
        two.model.layers[0].self_attn.q_proj.weight[4:8].mul_(5.0)  # no effect: the norm takes it out
        two.model.layers[1].self_attn.q_norm.weight.mul_(2.0)  # of all heads alike
    found = compare(one, two)
    assert named(found) == {}
    assert found["size"].values.max() == pytest.approx(1, abs=1e-5)


def test_tied_heads_are_named_and_the_head_they_became_is_not():
    model = hw.open_model(build("gpt2"))
    found = compare(model, model.edit(hw.TieHeads(1)))
    assert named(found) == {(1, head): "tied" for head in range(1, 6)}
    assert found["twin"].values[1].tolist() == [-1, 0, 0, 0, 0, 0] and "its slices are head 0's" in found["evidence"].values[1, 3]


def test_a_norm_over_all_heads_leaves_what_is_known_and_says_so():
    from transformers import Olmo2Config, Olmo2ForCausalLM

    one = drawn(Olmo2ForCausalLM(Olmo2Config(**GROUPED)))
    found = compare(one, hw.open_model(one).edit(hw.Scale(1, 2, 0.5)))
    assert named(found) == {(1, 2): "muted"}
    assert found["qk"].isnull().all() and "layer 0: query: every row that head 0 depends on" in found.attrs["notes"][0]


def test_heads_that_were_next_to_nothing_before_have_no_verdict():
    one = build("llama")
    with torch.no_grad():
        one.model.layers[1].self_attn.o_proj.weight[:, 8:12].mul_(1e-4)
    assert named(compare(one, changed(one, size=0.0005))) == {}


def test_on_texts_patterns_and_writes_are_compared():
    one = build("llama")
    model, tokens = hw.open_model(one), ids(1, 9)
    edited = model.edit([hw.Scale(2, 2, 0.5), hw.Temperature(2, 4, 2.0)])
    found = compare(model, edited, {"input_ids": tokens})
    before, after = model.run(tokens), edited.run(tokens)
    apart = (before.weights(2, 4) - after.weights(2, 4)).abs().sum(-1).mean() / 2
    assert float(found["pattern"][2, 4]) == pytest.approx(float(apart), rel=1e-5)
    assert float(found["writes"][2, 2]) == pytest.approx(0.5, rel=1e-5)
    assert found["pattern"].values[:2].max() == 0 and found["writes"].values[:2].max() == 0


def adapter(hf, folder, **settings):
    """An adapter as peft writes one, with numbers in both of its matrices; and the model with it merged by peft."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(r=4, lora_alpha=12, target_modules=["q_proj", "v_proj", "o_proj"], **settings)
    adapted = peft.get_peft_model(copy.deepcopy(hf), config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, x in adapted.named_parameters():
            if "lora_" in name:
                x.copy_(torch.randn(x.shape, generator=generator) * 0.3)
    adapted.save_pretrained(folder)
    return adapted.merge_and_unload()


@pytest.mark.parametrize(
    "settings", [{}, {"use_rslora": True}, {"alpha_pattern": {"q_proj": 3}}, {"use_dora": True}], ids=["plain", "rslora", "pattern", "dora"]
)
def test_an_adapter_is_merged_as_peft_merges_it(tmp_path, settings):
    one = build("llama")
    one.save_pretrained(tmp_path / "base")
    merged = adapter(one, tmp_path / "adapter", **settings)
    there, here = compare(tmp_path / "base", tmp_path / "adapter"), compare(one, merged)
    for name in ("gain", "ov", "qk", "size"):
        torch.testing.assert_close(torch.from_numpy(there[name].values), torch.from_numpy(here[name].values), rtol=1e-5, atol=1e-5)
    assert float(here["ov"].min()) < 0.999
    texts = compare(tmp_path / "base", tmp_path / "adapter", {"input_ids": ids(1, 9)})
    right = compare(one, merged, {"input_ids": ids(1, 9)})
    torch.testing.assert_close(torch.from_numpy(texts["pattern"].values), torch.from_numpy(right["pattern"].values), rtol=1e-3, atol=1e-4)


def test_an_adapter_that_is_not_merged_is_refused(tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    one = build("llama")
    adapted = peft.get_peft_model(copy.deepcopy(one), peft.LoraConfig(r=4, target_modules=["q_proj"]))
    with pytest.raises(ModelError, match=r"a head's rows must lie in one matrix to be compared, got .*base_layer.weight, .*lora_B.* Merge the adapter first."):
        compare(adapted.base_model.model, adapted.base_model.model)


def test_broken_adapters_are_refused(tmp_path, monkeypatch):
    one = build("llama")
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"adapter_config.json must be JSON, got JSONDecodeError in .*adapter'. Fetch the adapter again."):
        compare(one, folder)
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "lora_alpha": 4}')
    with pytest.raises(CheckpointError, match=r"an adapter must have its weights in adapter_model.safetensors, got none in .*adapter'."):
        compare(one, folder)
    with pytest.raises(ArgumentError, match=r"base must be a whole checkpoint, got the adapter .*adapter'. Pass it as tuned, and its base as base."):
        compare(folder, one)


def test_adapters_of_other_kinds_need_peft(tmp_path, monkeypatch):
    import sys

    one = build("llama")
    adapter(one, tmp_path / "adapter", use_dora=True)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingPackage, match=r"peft must be installed for adapters that are not plain LoRA, got none."):
        compare(one, tmp_path / "adapter")
    monkeypatch.undo()
    other = drawn(LlamaForCausalLM(LlamaConfig(**GROUPED | {"hidden_size": 36})))
    with pytest.raises(CheckpointError, match=r"an adapter must be one that peft merges into this base, got .*adapter': "):
        compare(other, tmp_path / "adapter")


REFUSED = {
    "family": ("llama", "qwen3", {}, r"checkpoints must be of one architecture to be compared, got model_type llama in .* and qwen3 in"),
    "layers": ("llama", "llama", {"num_hidden_layers": 2}, r"got num_hidden_layers 3 in .* and 2 in"),
    "key heads": ("llama", "llama", {"num_key_value_heads": 3}, r"got num_key_value_heads 2 in .* and 3 in"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_different_architectures_are_refused(case):
    one, two, changes, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        compare(build(one), build(two, **changes))


def test_heads_in_other_places_are_refused():
    family = FAMILIES["t5"]
    with pytest.raises(ModelError, match=r"checkpoints must have the same heads to be compared, got others in .* \(6 layers\) and .* \(4\)."):
        compare(family.build(), family.build(num_decoder_layers=1))


def test_an_adapter_alone_does_not_run(tmp_path):
    one = build("llama")
    adapter(one, tmp_path / "adapter")
    with pytest.raises(ModelError, match=r"an adapter must have its base to run, got .*adapter' alone."):
        opened(tuned_of(tmp_path / "adapter", base_of(one)))


def test_a_configuration_that_builds_no_model_is_refused(tmp_path):
    build("gpt2").save_pretrained(tmp_path / "gpt2")
    path = tmp_path / "gpt2" / "config.json"
    path.write_text(path.read_text().replace('"n_head": 6', '"n_head": 5'))
    with pytest.raises(CheckpointError, match=r"a checkpoint must have a configuration that transformers builds, got .*gpt2': .*divisible"):
        compare(tmp_path / "gpt2", tmp_path / "gpt2")


def test_a_checkpoint_without_a_parameter_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    build("llama").save_pretrained(tmp_path / "one")
    build("llama").save_pretrained(tmp_path / "two")
    found = load_file(tmp_path / "two" / "model.safetensors")
    del found["model.layers.1.self_attn.q_proj.weight"]
    save_file(found, tmp_path / "two" / "model.safetensors")
    with pytest.raises(ModelError, match=r"both checkpoints must have every parameter of attention, got none called model.layers.1.self_attn.q_proj.weight"):
        compare(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / "config.json").write_text('{"model_type": "unheard_of"}')
    with pytest.raises(CheckpointError, match=r"a checkpoint must have a configuration that transformers builds, got .*two'"):
        compare(tmp_path / "two", tmp_path / "two")


def test_arguments_that_say_nothing_are_refused():
    one = build("llama")
    with pytest.raises(ArgumentTypeError, match=r"a checkpoint must be a directory, a hub id, a demo's name or a model, got int."):
        compare(one, 3)
    with pytest.raises(ArgumentError, match=r"a threshold must be one of tied, muted, .*, got 'loud'. Correct the name."):
        compare(one, one, loud=1)
    with pytest.raises(ArgumentError, match=r"part must be one of self, got 'cross'. Correct the name."):
        compare(one, one, part="cross")
    with pytest.raises(ArgumentError, match=r"rewired must be a cosine, got 2. Choose one from -1 to 1."):
        Thresholds(rewired=2)
    with pytest.raises(ArgumentError, match=r"tempered must be in 0..1 and sharpened at least 1, got 0.8 and 0.5. Choose them around 1."):
        Thresholds(sharpened=0.5)
    family = FAMILIES["t5"]
    with pytest.raises(ArgumentError, match=r"part must be given where a model has several, got None. Choose one of encoder.self, .*decoder.cross."):
        compare(family.build(), family.build())

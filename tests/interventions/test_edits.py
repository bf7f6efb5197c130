"""Each edit does what it says, in the weights as at run time; everything else stays as it was, to the last bit."""

import copy

import pytest
import torch
from transformers import AlbertConfig, AlbertModel, Olmo2Config, Olmo2ForCausalLM

import headwise as hw
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.interventions.edited import EditedModel
from tests.models.tiny import COMMON, FAMILIES, GROUPED, VOCABULARY, Family, build, drawn, given, ids

BLOOM = Family("BloomConfig", "BloomForCausalLM", {"hidden_size": 24, "n_head": 6, "n_layer": 2, "vocab_size": VOCABULARY})
NEOX = Family("GPTNeoXConfig", "GPTNeoXForCausalLM", COMMON)
TOKENS = ids(1, 9)
pytestmark = pytest.mark.usefixtures("plain")


def wide(family):
    """A model in float64, where 1e-6 is far above rounding."""
    return hw.open_model(family.build().double())


def final(model):
    with torch.no_grad():
        return model.hf(TOKENS)[0]


def by_hand(model, name, change):
    hf = copy.deepcopy(model.hf)
    with torch.no_grad():
        change(hf.get_parameter(name))
    return hw.open_model(hf)


EDITS = [
    [hw.Ablate(1, 2)],
    [hw.Scale(1, 2, -1.5)],
    [hw.Temperature(0, 4, 2.5), hw.Temperature(1, 0, 0.3)],
    [hw.TieHeads(1)],
    [hw.Ablate(0, 1), hw.Scale(0, 2, 3.0), hw.Temperature(1, 5, 1.7), hw.TieHeads(0)],
]


CASES = [("gpt2", edits) for edits in EDITS] + [(name, EDITS[-1]) for name in ("phi3", "bert", "neox")]


@pytest.mark.parametrize(("name", "edits"), CASES, ids=lambda x: x if isinstance(x, str) else "+".join(one.kind for one in x))
def test_in_the_weights_and_at_run_time_the_same(name, edits):
    model = wide(NEOX if name == "neox" else FAMILIES[name])
    untouched = {name: x.clone() for name, x in model.hf.state_dict().items()}
    in_weights, at_run = model.edit(edits, mode="weights"), model.edit(edits, mode="run")
    one, two = final(in_weights), final(at_run)
    assert (one - two).abs().max() <= 1e-6 * one.abs().max()
    assert (one - final(model)).abs().max() > 1e-2
    assert all(torch.equal(x, untouched[name]) for name, x in model.hf.state_dict().items())
    assert [verdict.passed for verdict in (at_run if name == "phi3" else in_weights).report.verdicts.values()] == [True] * 4


def test_the_other_attention_implementations_of_the_model_see_the_same_edit():
    model = wide(FAMILIES["llama"])
    edited = model.edit([hw.Scale(1, 2, 1.5), hw.Temperature(0, 1, 2.0)])
    torch.testing.assert_close(final(edited), edited.run(TOKENS).outputs["logits"])
    assert edited.hf.config._attn_implementation == model.hf.config._attn_implementation
    assert edited.run(TOKENS).proof.passed


def test_silence_is_zero_columns_of_w_o_and_nothing_else():
    model = wide(FAMILIES["llama"])
    name = "model.layers.1.self_attn.o_proj.weight"
    right = by_hand(model, name, lambda w: w[:, 8:12].zero_())
    wrong = by_hand(model, name, lambda w: w[8:12].zero_())  # slicing the output of o_proj, which is what published code does: no head
    assert torch.equal(final(model.edit(hw.Ablate(1, 2))), final(right))
    assert (final(wrong) - final(right)).abs().max() > 0.1
    assert model.edit(hw.Ablate(1, 2)).run(TOKENS).writes["norm"].sel(layer=1, head=2).max() == 0


def test_scale_is_a_factor_of_what_the_head_writes():
    model = wide(FAMILIES["gpt2"])
    ratio = model.edit(hw.Scale(2, 1, 1.5)).run(TOKENS).writes["norm"] / model.run(TOKENS).writes["norm"]
    assert torch.allclose(torch.from_numpy(ratio.sel(layer=2).values[0, :, 0]), torch.tensor([1, 1.5, 1, 1, 1, 1], dtype=torch.float64), rtol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])  # qwen3 normalises its queries: there it is done at run time
def test_temper_is_a_softmax_of_scores_divided(name):
    model = wide(FAMILIES[name])
    before, after = model.run(TOKENS), model.edit(hw.Temperature(0, 4, 2.0)).run(TOKENS)
    weights = before.weights(0, 4)
    expected = (weights.log() / 2).softmax(-1)
    torch.testing.assert_close(after.weights(0, 4), expected.nan_to_num())
    assert torch.equal(after.weights(0, 3), before.weights(0, 3))


def test_queries_that_are_normalised_are_tempered_at_run_time_and_not_in_the_weights():
    model = hw.open_model(build("qwen3"))
    edited = model.edit([hw.Temperature(0, 4, 2.0), hw.Ablate(1, 1)])
    assert [one.kind for one in edited.plan.run] == ["temperature"] and [one.kind for one in edited.plan.weights] == ["ablate"]
    assert edited.hf.config._attn_implementation == "headwise"
    with pytest.raises(
        ModelError,
        match=r"Temperature\(layer=0, head=4.*cannot be made in the weights.*normalised after W_Q, so the size of W_Q has no effect. Leave out mode=",
    ):
        model.edit(hw.Temperature(0, 4, 2.0), mode="weights")


def test_tied_heads_have_one_pattern_that_of_head_0():
    model = wide(FAMILIES["llama"])
    before, after = model.run(TOKENS), model.edit(hw.TieHeads(1)).run(TOKENS)
    for head in range(6):
        torch.testing.assert_close(after.weights(1, head), before.weights(1, 0))
    read = after._stored_call(1).z
    assert all(torch.equal(read[:, :, 0], read[:, :, head]) for head in range(6))


def test_blind_hides_keys_and_the_rest_adds_up_to_1_again():
    model = wide(FAMILIES["llama"])
    before, edited = model.run(TOKENS), model.edit(hw.MaskKeys(0, 3, keys=[0, 2, 50]))
    weights = edited.run(TOKENS).weights(0, 3)
    assert weights[:, [0, 2]].abs().max() == 0
    expected = before.weights(0, 3).clone()
    expected[:, [0, 2]] = 0
    expected = (expected / expected.sum(-1, keepdim=True)).nan_to_num()
    torch.testing.assert_close(weights, expected)
    assert weights[0].sum() == 0, "the first token saw itself alone"
    assert torch.equal(edited.run(TOKENS).weights(0, 2), before.weights(0, 2))
    torch.testing.assert_close(final(edited), edited.run(TOKENS).outputs["logits"])


def test_one_use_of_a_shared_layer_is_edited_at_run_time_alone():
    model = hw.open_model(drawn(AlbertModel(AlbertConfig(**COMMON, embedding_size=12))))
    edited = model.edit(hw.Ablate(1, 2))
    assert [one.kind for one in edited.plan.run] == ["ablate"]
    norm = edited.run(TOKENS).writes["norm"].sel(head=2).max("query").values[0]
    assert norm[1] == 0 and norm[0] > 0 and norm[2] > 0
    message = r"Ablate\(layer=1, head=2, part=None\) cannot be made in the weights: .*dense.weight is used by layer 1 and also by layer 0, 2\."
    with pytest.raises(ModelError, match=message):
        model.edit(hw.Ablate(1, 2), mode="weights")
    with pytest.raises(
        ModelError, match=r"Temperature.* cannot be made at run time: .* computes layer 1 and also layer 0, 2; nor in the weights: .* also by layer"
    ):
        model.edit(hw.Temperature(1, 2, 2.0))


def test_attention_that_the_model_computes_itself_is_edited_in_the_weights():
    model = hw.open_model(BLOOM.build())
    edited = model.edit([hw.Ablate(0, 1), hw.Temperature(1, 2, 2.0)])
    assert edited.report.passed
    assert "BloomAttention" in str(type(model.hf.transformer.h[0].self_attention)) and not edited.plan.run
    with pytest.raises(ModelError, match=r"MaskKeys.* cannot be made at run time: .*self_attention computes its attention itself"):
        model.edit(hw.MaskKeys(0, 1, keys=[0]))


def test_a_norm_over_all_heads_leaves_temper_and_tie_to_run_time():
    model = hw.open_model(drawn(Olmo2ForCausalLM(Olmo2Config(**GROUPED))))
    edited = model.edit([hw.Temperature(0, 1, 2.0), hw.TieHeads(1)])
    assert [one.kind for one in edited.plan.run] == ["temperature", "tie_heads"]
    assert edited.report.passed
    with pytest.raises(ModelError, match=r"Could not find which rows belong to each head's query in model.layers.0.self_attn: every row that head 0"):
        edited.head_map.projected(edited.head_map.place(0), "query")


def test_parts_are_named():
    family = FAMILIES["t5"]
    model = hw.open_model(family.build())
    edited = model.edit([hw.Ablate(1, 2, part="decoder.cross"), hw.TieHeads(0, part="encoder.self")])
    norm = edited.run(given(family)).writes_of("decoder.cross")["norm"]
    assert float(norm.sel(layer=1, head=2).max()) == 0 and float(norm.sel(layer=0, head=2).max()) > 0
    with pytest.raises(
        ArgumentError, match=r"part must be given for a model that has several, got None. Choose one of encoder.self, decoder.self, decoder.cross"
    ):
        model.edit(hw.Ablate(1, 2))
    with pytest.raises(ArgumentError, match=r"part must be one of encoder.self, .*, got 'cross'. Correct the name."):
        model.edit(hw.Ablate(1, 2, part="cross"))


def test_undo_is_leaving_an_edit_out():
    model = hw.open_model(build("llama"))
    both = model.edit(hw.Ablate(0, 1)).edit([hw.Scale(1, 1, 2.0)])
    assert both.base is model and both.edits == (hw.Ablate(0, 1), hw.Scale(1, 1, 2.0))
    assert torch.equal(final(model.edit(both.edits[1:])), final(model.edit(hw.Scale(1, 1, 2.0))))
    assert isinstance(both, EditedModel) and "2 edits" in repr(both)


CONTRADICTIONS = [
    [hw.Ablate(1, 2), hw.Scale(1, 2, 2.0)],
    [hw.Scale(1, 2, 2.0), hw.Scale(1, 2, 3.0)],
    [hw.Temperature(1, 2, 2.0), hw.TieHeads(1)],
    [hw.Prune(1, 2), hw.Ablate(1, 2)],
    [hw.TieHeads(1), hw.TieHeads(1)],
]


@pytest.mark.parametrize("edits", CONTRADICTIONS, ids=lambda edits: "+".join(one.kind for one in edits))
def test_edits_that_contradict_one_another_are_refused(edits):
    with pytest.raises(ArgumentError, match=r"edits must not contradict one another, got .* and .*, which both change head \d. Leave one out."):
        hw.open_model(build("gpt2")).edit(edits)


REFUSED = {
    r"layer must be in 0..2 in the model, got 3. Choose one of these.": lambda: hw.Ablate(3, 0),
    r"head must be in 0..5 in layer 1, got 6. Choose one of these.": lambda: hw.Ablate(1, 6),
    r"head must be in 0..5 in layer 1, got -1. Choose one of these.": lambda: hw.Scale(1, -1, 2.0),
    r"factor must be a finite number, got inf. Pass 1.5, say.": lambda: hw.Scale(1, 1, float("inf")),
    r"temperature must be above 0, got 0.0. Above 1 is flatter, below 1 sharper.": lambda: hw.Temperature(1, 1, 0.0),
    r"keys must be positions from 0, at least one, got \[\]. Pass \[0\] for the first token.": lambda: hw.MaskKeys(1, 1, keys=[]),
    r"edits must be at least one, got an empty list": list,
}


@pytest.mark.parametrize(("old", "new"), [("Silence", "Ablate"), ("Temper", "Temperature"), ("Blind", "MaskKeys"), ("Tie", "TieHeads")])
def test_old_names_of_edits_are_the_new_classes_with_a_warning(old, new):
    with pytest.warns(DeprecationWarning, match=rf"headwise\.{old} is deprecated and will be removed in the next release\. Use headwise\.{new}\."):
        assert getattr(hw, old) is getattr(hw, new)
    assert old not in dir(hw)


def test_the_old_name_of_the_mode_still_works():
    model = hw.open_model(build("gpt2"))
    with pytest.warns(DeprecationWarning, match=r"edit\(at=\.\.\.\) is deprecated .* Use mode"):
        edited = model.edit(hw.Ablate(1, 1), at="run")
    assert [one.kind for one in edited.plan.run] == ["ablate"]
    with pytest.warns(DeprecationWarning, match="Use mode"):
        assert [one.kind for one in edited.edit(hw.Ablate(1, 2), at="run").plan.run] == ["ablate", "ablate"]


@pytest.mark.parametrize("message", REFUSED)
def test_edits_that_name_nothing_are_refused(message):
    with pytest.raises(ArgumentError, match=message):
        hw.open_model(build("gpt2")).edit(REFUSED[message]())


def test_edits_of_the_wrong_type_are_refused():
    model = hw.open_model(build("gpt2"))
    with pytest.raises(ArgumentTypeError, match=r"layer must be an int, got float. Count from 0."):
        model.edit(hw.Ablate(1.0, 2))
    with pytest.raises(ArgumentTypeError, match=r"factor must be a number, got str. Pass 1.5, say."):
        hw.Scale(1, 1, "2")
    with pytest.raises(ArgumentTypeError, match=r"keys must be ints, got \['a'\]"):
        hw.MaskKeys(1, 1, keys=["a"])
    with pytest.raises(ArgumentTypeError, match=r"edits must be hw.Ablate, hw.Scale and the like, got str"):
        model.edit(["ablate"])
    with pytest.raises(ArgumentError, match=r"mode must be 'weights', 'run' or None, got 'now'"):
        model.edit(hw.Ablate(1, 1), mode="now")


def test_numbers_that_do_not_fit_the_dtype_are_refused_when_they_are_made():
    model = hw.open_model(build("gpt2").half())
    with pytest.raises(ArgumentError, match=r"The edits would make transformer.h.1.attn.c_proj.weight infinite or NaN in torch.float16"):
        model.edit(hw.Scale(1, 1, 1e6))


def test_nan_after_an_edit_is_reported():
    model = hw.open_model(build("gpt2"))
    edited = model.edit(hw.Scale(0, 1, 1e38))
    found = edited.report
    assert not found.passed
    assert "are NaN or infinite after the edits" in str(found)


def test_a_parameter_written_to_since_is_reported():
    model = hw.open_model(build("gpt2"))
    edited = model.edit(hw.Ablate(0, 1))
    with torch.no_grad():
        model.hf.transformer.wte.weight.add_(0.0)
    verdict = edited.report.verdicts["original"]
    assert verdict.passed is False and "transformer.wte.weight was, since the edits were made" in verdict.sentence

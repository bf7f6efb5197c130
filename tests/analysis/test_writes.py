"""What heads write: every number against its definition, and sums that must hold."""

import math
from types import SimpleNamespace

import pytest
import torch

import headwise as hw
from headwise.analysis.ablation.direct_effect import direct_effects, readout
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.analysis.writes import check_sum, layer_writes, norm_weighted, writes
from headwise.errors import ModelError, WritesRefused
from headwise.models.layout import w_o_bias, w_o_by_head
from tests.models.tiny import build, ids

TEXT = ids(batch=1, length=9)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_parts_add_up_to_what_the_module_gives(name):
    hf = build(name)
    passage = Evaluator(hw.open_model(hf), "cosine").open(TEXT)
    given = {}
    outputs = [passage.forward.session.layout.sites[place.index].output.module for place in passage.places]
    for module in outputs:
        hf.get_submodule(module).register_forward_hook(lambda m, a, result, module=module: given.__setitem__(module, result))
    hf(TEXT)
    for layer, module in zip(layer_writes(passage), outputs, strict=True):
        bias = w_o_bias(hf.get_submodule(module))
        total = layer.writes.sum(2) if bias is None else layer.writes.sum(2) + bias
        torch.testing.assert_close(total, given[module].detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("plain")
def test_parts_that_do_not_add_up_are_an_error():
    parts, place = torch.ones(1, 2, 3, 4), SimpleNamespace(module="layer")
    with pytest.raises(ModelError, match="heads of layer must add up to what its W_O gives, got a difference of 0.2"):
        check_sum(place, parts.sum(2) + 0.1, parts.sum(2), parts)
    with pytest.raises(WritesRefused, match="writes of layer cannot be attributed to heads: what its W_O gave was not seen"):
        check_sum(place, parts.sum(2), None, parts)
    check_sum(place, parts.sum(2) + 1e-6, parts.sum(2), parts)


def test_every_number_is_its_definition():
    hf = build("gpt2")
    model = hw.open_model(hf)
    found, run = writes(model, TEXT), model.run(TEXT)
    for name in ("norm", "share", "cosine"):
        torch.testing.assert_close(torch.from_numpy(found[name].values), torch.from_numpy(run.writes[name].values[0]).double(), atol=1e-4, rtol=1e-3)
    block = w_o_by_head(hf.transformer.h[1].attn.c_proj, 6).double()
    stream: list[torch.Tensor] = []
    hf.transformer.h[1].register_forward_pre_hook(lambda module, args: stream.append(args[0].detach()))
    read: list[torch.Tensor] = []
    hf.transformer.h[1].attn.c_proj.register_forward_pre_hook(lambda module, args: read.append(args[0]))
    hf(TEXT)
    z = read[0][0].double().unflatten(-1, (6, -1)).detach()
    parts = torch.einsum("the,hem->thm", z, block)
    token, head = 4, 2
    own = parts[token, head]
    at = {"layer": 1, "query": token}
    singular = torch.linalg.svdvals(block[head])
    assert float(found.stream_cosine.sel(head=head, **at)) == pytest.approx(float(torch.cosine_similarity(own, stream[0][0, token].double(), dim=0)), abs=1e-5)
    assert float(found.kept.sel(head=head, **at)) == pytest.approx(float(own.square().sum() / (z[token, head].square().sum() * singular[0] ** 2)), abs=1e-5)
    value_weighted = parts[token].norm(dim=-1)
    assert float(found.agreement.sel(**at)) == pytest.approx(float(parts[token].sum(0).norm() / value_weighted.sum()), abs=1e-5)
    pairs = [float(torch.cosine_similarity(parts[token, a], parts[token, b], dim=0)) for a in range(6) for b in range(6) if a != b]
    assert float(found.overlap.sel(**at)) == pytest.approx(sum(pairs) / 30, abs=1e-5)
    shares = (value_weighted / value_weighted.sum()).tolist()
    assert float(found.democracy.sel(**at)) == pytest.approx(-sum(x * math.log(x) for x in shares) / math.log(6), abs=1e-5)
    energy = (singular.square() / singular.square().sum()).tolist()
    assert float(found.effective_rank[1, head]) == pytest.approx(math.exp(-sum(x * math.log(x) for x in energy)), abs=1e-4)
    assert found.singular_values[1, head].values.tolist() == pytest.approx(singular.tolist(), abs=1e-4)


def test_norm_weighted_attention():
    hf = build("llama")
    model = hw.open_model(hf)
    passage = Evaluator(model, "cosine").open(TEXT)
    found = norm_weighted(passage, passage.places[1])
    values: list[torch.Tensor] = []
    hf.model.layers[1].self_attn.v_proj.register_forward_hook(lambda module, args, result: values.append(result))
    hf(TEXT)
    value = values[0][0].detach().unflatten(-1, (2, 4))
    block = w_o_by_head(hf.model.layers[1].self_attn.o_proj, 6)
    weights = model.run(TEXT).weights(1, 5)
    right = weights * (value[:, 1] @ block[5]).norm(dim=-1)
    torch.testing.assert_close(found[0, 5], right, atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("plain")
def test_norm_weighted_attention_where_a_gate_comes_between():
    from benchmarks.tiny import build as of_type

    hf, given = of_type("qwen3_next")
    passage = Evaluator(hw.open_model(hf), "cosine").open(given)
    with pytest.raises(WritesRefused, match="must reach W_O as they are, got something in between"):
        norm_weighted(passage, passage.places[0])


@pytest.mark.parametrize("name", ["llama", "gpt2", "opt"])
def test_direct_effects_of_all_parts_add_up_to_the_logit(name):
    """Heads, biases, feed-forward and embedding: what is left over is made by hand here."""
    hf = build(name, **({} if name != "opt" else {"do_layer_norm_before": True}))
    passage = Evaluator(hw.open_model(hf), "next").open(TEXT)
    read = readout(passage.forward)
    tokens = TEXT.roll(-1, 1)
    heads = sum(direct_effects(passage, read, place, tokens).sum(-1) for place in passage.places)
    written = sum(layer.total for layer in layer_writes(passage))
    others = torch.einsum("btm,btm->bt", read.stream - written, read.rows(tokens)) + read.rest(tokens)
    right = hf(TEXT).logits.detach().gather(-1, tokens[..., None])[..., 0]
    torch.testing.assert_close(heads + others, right, atol=2e-3, rtol=1e-3)


def test_a_direct_effect_is_the_slope_at_the_end():
    """Adding a little of the write to what the last norm reads, its size held, moves the logit by just so much."""
    hf = build("llama")
    passage = Evaluator(hw.open_model(hf), "next").open(TEXT)
    read, tokens = readout(passage.forward), TEXT.roll(-1, 1)
    write = layer_writes(passage)[1].writes[:, :, 3]
    by_hand = torch.einsum("btm,btm->bt", write * hf.model.norm.weight.detach() * read.scale, hf.lm_head.weight.detach()[tokens])
    torch.testing.assert_close(direct_effects(passage, read, passage.places[1], tokens)[..., 3], by_hand, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("gemma2", {"final_logit_softcapping": 5.0}, "direct effects on logits must be those of a map to the vocabulary that comes last"),
        ("gemma2", {"final_logit_softcapping": None}, "heads' writes must reach the residual stream as they are, got model.layers.0"),
        ("bert", {}, "direct effects on logits must be those of a map to the vocabulary that comes last"),
    ],
)
def test_where_there_is_no_direct_effect(name, settings, said):
    passage = Evaluator(hw.open_model(build(name, **settings)), "cosine").open(TEXT)
    with pytest.raises(WritesRefused, match=said):
        readout(passage.forward)

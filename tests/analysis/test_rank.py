"""Ranking: methods, losses, intervals, what is remembered, what is refused."""

import json

import pytest
import torch
from torch import nn

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.errors import ArgumentError, ArgumentTypeError, WritesRefused
from tests.analysis.plain import loss, output_of, without
from tests.analysis.toys import decoder, encoder
from tests.models.tiny import FAMILIES, build, given, ids

TEXTS = [ids(batch=1, length=9, seed=1), ids(batch=1, length=14, seed=2), ids(batch=1, length=6, seed=3)]


def derivative(hf: nn.Module, family: str, layer: int, head: int, text: torch.Tensor, step: float = 1e-2) -> float:
    """∂loss/∂gate by a difference of the loss with the head turned a little up and down, in float64."""
    found = []
    for gate in (1 + step, 1 - step):

        def turn(module, args, gate=gate):
            words = args[0].clone()
            words.unflatten(-1, (6, -1))[..., head, :] *= gate
            return (words,)

        handle = output_of(hf, family, layer).register_forward_pre_hook(turn)
        found.append(loss(hf, {"input_ids": text}))
        handle.remove()
    return (found[0] - found[1]) / (2 * step)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_gradient_is_the_slope(name):
    hf = build(name)
    found = hw.rank(hw.open_model(hf), TEXTS[0], "gradient")
    wide = build(name).double()
    for layer, head in ((0, 0), (1, 4), (2, 5)):
        slope = derivative(wide, name, layer, head, TEXTS[0])
        assert float(found.effect[layer, head]) == pytest.approx(-slope, abs=2e-3 + 0.02 * abs(slope))
        assert float(found.importance[layer, head]) == pytest.approx(abs(float(found.effect[layer, head])))


def test_the_gradient_through_logits_that_are_bent_afterwards():
    found = hw.rank(hw.open_model(build("gemma2", final_logit_softcapping=5.0)), TEXTS[0], "gradient")
    wide = build("gemma2", final_logit_softcapping=5.0).double()
    slope = derivative(wide, "gemma2", 1, 2, TEXTS[0])
    assert float(found.effect[1, 2]) == pytest.approx(-slope, abs=2e-3 + 0.02 * abs(slope))


def test_effects_are_means_over_tokens_and_intervals_over_texts():
    model = hw.open_model(build("llama"))
    every = hw.rank(model, TEXTS)
    alone = [hw.rank(model, text) for text in TEXTS]
    counts = torch.tensor([8.0, 13.0, 5.0])
    for place in ((0, 0), (2, 3)):
        right = sum(float(one.effect[place]) * n for one, n in zip(alone, counts, strict=True)) / counts.sum()
        assert float(every.effect[place]) == pytest.approx(float(right), abs=1e-6)
        ends = [float(one.effect[place]) for one in alone]
        assert min(ends) - 1e-9 <= float(every.low[place]) <= float(every.effect[place]) <= float(every.high[place]) <= max(ends) + 1e-9
        assert torch.isnan(torch.tensor(float(alone[0].low[place])))
    assert every.attrs["tokens"] == 26
    assert every["rank"].values.ravel()[every.importance.values.ravel().argmax()] == 1
    assert sorted(every["rank"].values.ravel()) == list(range(1, 19))


@pytest.mark.parametrize("ablation", ["mean", "resample"])
def test_other_words_than_silence(ablation):
    hf = build("llama")
    found = hw.rank(hw.open_model(hf), TEXTS[:2], ablation=ablation)
    said: list[torch.Tensor] = []
    handle = output_of(hf, "llama", 1).register_forward_pre_hook(lambda module, args: said.append(args[0].clone()))
    own = [loss(hf, {"input_ids": text}) for text in TEXTS[:2]]
    handle.remove()
    mean = torch.cat([x[0] for x in said]).mean(0)
    effects = []
    for number, text in enumerate(TEXTS[:2]):
        other = said[1 - number][0]
        words = mean.expand(said[number][0].shape) if ablation == "mean" else other[torch.arange(text.shape[1]) % len(other)]

        def put(module, args, words=words):
            found = args[0].clone()
            found.unflatten(-1, (6, -1))[0, :, 2] = words.unflatten(-1, (6, -1))[:, 2]
            return (found,)

        handle = output_of(hf, "llama", 1).register_forward_pre_hook(put)
        effects.append(loss(hf, {"input_ids": text}) - own[number])
        handle.remove()
    right = (effects[0] * 8 + effects[1] * 13) / 21
    assert float(found.effect[1, 2]) == pytest.approx(right, abs=1e-5)


def test_the_change_of_the_models_own_output():
    hf = build("llama")
    model = hw.open_model(hf)
    with torch.no_grad():
        own, changed = (x(TEXTS[0]).logits.double().log_softmax(-1) for x in (hf, without(hf, "llama", [(1, 3)])))
    right = float((own.exp() * (own - changed)).sum(-1).mean())
    assert float(hw.rank(model, TEXTS[0], loss="kl").effect[1, 3]) == pytest.approx(right, abs=1e-5)


def test_how_far_an_encoder_turns():
    hf = build("bert")
    found = hw.rank(hw.open_model(hf), TEXTS[0])
    other = build("bert")
    with torch.no_grad():
        dense = other.encoder.layer[2].attention.output.dense
        dense.weight.t().unflatten(0, (6, -1))[4] = 0
        own, changed = (x(TEXTS[0]).last_hidden_state.double() for x in (hf, other))
    assert found.attrs["loss"] == "cosine"
    assert float(found.effect[2, 4]) == pytest.approx(float((1 - torch.cosine_similarity(own, changed, dim=-1)).mean()), abs=1e-6)


def test_masked_tokens():
    model = encoder()
    found = hw.rank(model, "the old cat saw the dog near the river and the house .")
    assert (found.attrs["loss"], found.sizes["layer"]) == ("masked", 2)
    assert 1 <= found.attrs["tokens"] <= 6
    passage = Evaluator(model, "masked").open("the old cat saw the dog near the river and the house .")
    masked = passage.forward.session.inputs["input_ids"] == 4
    assert int(masked.sum()) == passage.loss.tokens
    logits = model.hf(**passage.forward.session.inputs).logits
    ids = torch.tensor([model.tokenizer("the old cat saw the dog near the river and the house .")["input_ids"]])
    assert passage.base == pytest.approx(float(nn.functional.cross_entropy(logits[masked], ids[masked]).detach()), abs=1e-5)


def test_writes_are_what_the_run_says():
    model = hw.open_model(build("gpt2"))
    found = hw.rank(model, TEXTS[0], "write")
    right = model.run(TEXTS[0]).writes["share"].mean(("batch", "query"))
    torch.testing.assert_close(torch.from_numpy(found.effect.values), torch.from_numpy(right.values).double(), atol=1e-5, rtol=1e-4)


def test_patching_brings_back_what_the_head_said():
    hf = build("llama")
    clean, corrupt = ids(batch=1, length=9, seed=11), ids(batch=1, length=9, seed=12)
    found = hw.rank(hw.open_model(hf), [(clean, corrupt)], "patch")
    with torch.no_grad():
        ends = [hf(text).logits[0, -1] for text in (clean, corrupt)]
        answer, wrong = (int(x.argmax()) for x in ends)
        goal, start = (float(x[answer] - x[wrong]) for x in ends)
        said = []
        handle = output_of(hf, "llama", 1).register_forward_pre_hook(lambda module, args: said.append(args[0].clone()))
        hf(clean)
        handle.remove()

        def put(module, args):
            words = args[0].clone()
            words.unflatten(-1, (6, -1))[..., 3, :] = said[0].unflatten(-1, (6, -1))[..., 3, :]
            return (words,)

        handle = output_of(hf, "llama", 1).register_forward_pre_hook(put)
        patched = hf(corrupt).logits[0, -1]
        handle.remove()
    right = (float(patched[answer] - patched[wrong]) - start) / (goal - start)
    assert float(found.effect[1, 3]) == pytest.approx(right, abs=1e-4)


def test_any_metric():
    model = hw.open_model(build("llama"))
    pair = ids(batch=1, length=9, seed=11), ids(batch=1, length=9, seed=12)
    found = hw.rank(model, pair, "patch", metric=lambda outputs: outputs["logits"][:, 4, 7])
    assert found.effect.shape == (3, 6)
    with pytest.raises(ArgumentError, match="metric must give a number for each of 1 batch rows, got float"):
        hw.rank(model, pair, "patch", metric=lambda outputs: 1.0)
    with pytest.raises(ArgumentError, match="clean and corrupt must differ in the metric, got 0 for both"):
        hw.rank(model, pair, "patch", metric=lambda outputs: outputs["logits"][:, 0, 0] * 0)


def test_a_model_that_passes_things_by_another_way_is_run_whole():
    """Here the second block reads what the first left on the side: blocks cannot be answered, and the numbers are right all the same."""
    hf = build("llama")
    side = {}
    first, second = hf.model.layers[0], hf.model.layers[1]

    def leave(module, args, result):
        side["left"] = (result[0] if isinstance(result, tuple) else result).mean()

    def read(module, args, kwargs):
        return (args[0] + side.pop("left"), *args[1:]), kwargs

    first.mlp.register_forward_hook(leave)
    second.register_forward_pre_hook(read, with_kwargs=True)
    model = hw.open_model(hf)
    passage = Evaluator(model, "next").open(TEXTS[0])
    assert not passage.forward.reuses
    base = loss(hf, {"input_ids": TEXTS[0]})
    assert float(hw.rank(model, TEXTS[0]).effect[1, 2]) == pytest.approx(loss(without(hf, "llama", [(1, 2)]), {"input_ids": TEXTS[0]}) - base, abs=1e-5)


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    model, state = hw.open_model(build("llama")), tmp_path / "state.jsonl"
    whole = hw.rank(model, TEXTS)
    seen = []

    class Stopped(Exception):
        pass

    def stop(stage, done, total):
        seen.append(done)
        if done == 4:
            raise Stopped

    with pytest.raises(Stopped):
        hw.rank(model, TEXTS, state=state, progress=stop)
    assert seen == [0, 1, 2, 3, 4]
    lines = state.read_bytes()
    state.write_bytes(lines[:-20])  # the last line was cut off by a kill
    went_on = []
    found = hw.rank(model, TEXTS, state=state, progress=lambda _, done, total: went_on.append(done))
    assert went_on == list(range(3, 10))
    assert (found.effect == whole.effect).all()
    forward = hw.rank(model, TEXTS, state=state, progress=lambda _, done, total: went_on.append(done))
    assert went_on[-1] == 9 and (forward.effect == whole.effect).all()


def test_a_state_of_other_work(tmp_path):
    state = tmp_path / "state.jsonl"
    hw.rank(hw.open_model(build("llama")), TEXTS[:1], state=state)
    others = {"model": (build("llama", 5), TEXTS[:1], {}), "texts": (build("llama"), TEXTS[1:2], {}), "loss": (build("llama"), TEXTS[:1], {"loss": "kl"})}
    for name, (model, texts, settings) in others.items():
        with pytest.raises(
            ArgumentError, match=f"The state file '.*state.jsonl' belongs to another ranking: {name} changed since it was written. Choose another"
        ):
            hw.rank(hw.open_model(model), texts, state=state, **settings)
    header = state.read_text().splitlines()[0]
    state.write_text(header + "\n" + json.dumps({"unit": 3}) + "\n")
    with pytest.raises(ArgumentError, match="is damaged at b'{\"unit\": 3}'"):
        hw.rank(hw.open_model(build("llama")), TEXTS[:1], state=state)
    with pytest.raises(ArgumentError, match=r"The state file '.*' cannot be written \(Is a directory\)"):
        hw.rank(hw.open_model(build("llama")), TEXTS[:1], state=tmp_path)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"method": "ablate"}, ArgumentError, "method must be one of ablation, gradient, write, patch, got 'ablate'"),
        ({"ablation": "noise"}, ArgumentError, "ablation must be one of zero, mean, resample, got 'noise'"),
        ({"ablation": "resample"}, ArgumentError, "ablation 'resample' must have another text to take words from, got one text"),
        ({"loss": "mse"}, ArgumentError, "loss must be one of next, masked, kl, cosine, got 'mse'"),
        ({"loss": "masked"}, ArgumentError, "loss 'masked' must have a token that masks, got none"),
        ({"loss": "next", "method": "write"}, ArgumentError, "loss must be left out for method 'write', got 'next'"),
        ({"loss": "kl", "method": "gradient"}, ArgumentError, "loss of method 'gradient' must have a slope, got 'kl'"),
        ({"part": "cross"}, ArgumentError, "part must be one of self in this model, got 'cross'"),
        ({"texts": []}, ArgumentError, "texts must hold at least one text, got an empty list"),
        ({"texts": 3}, ArgumentTypeError, "texts must be a text, a list of texts or of the model's own inputs, got int"),
        ({"method": "patch"}, ArgumentTypeError, r"texts must be pairs \(clean, corrupt\) for method 'patch', got Tensor"),
        ({"method": "patch", "texts": [(TEXTS[0], TEXTS[1])]}, ArgumentError, "clean and corrupt must have as many tokens, got 9 and 14"),
        ({"method": "patch", "texts": [(TEXTS[0], TEXTS[0])]}, ArgumentError, r"clean and corrupt must lead to different tokens, got \d+ for both"),
    ],
)
def test_what_cannot_be_ranked(settings, error, said):
    settings = {"texts": TEXTS[0], **settings}
    with pytest.raises(error, match=said):
        hw.rank(hw.open_model(build("llama")), **settings)


@pytest.mark.usefixtures("plain")
def test_what_some_models_cannot_have():
    with pytest.raises(ArgumentError, match="loss 'next' must have logits for each token, got last_hidden_state"):
        hw.rank(hw.open_model(build("bert")), TEXTS[0], loss="next")
    with pytest.raises(ArgumentError, match="part must be given where a model has several, got None. Choose one of encoder.self, decoder.self, decoder.cross"):
        hw.rank(hw.open_model(build("t5")), given(FAMILIES["t5"]))
    with pytest.raises(ArgumentError, match="metric must be given for a model without logits for each token, got None"):
        hw.rank(hw.open_model(build("bert")), (TEXTS[0], ids(batch=1, length=9, seed=5)), "patch")


@pytest.mark.usefixtures("plain")
def test_heads_that_cannot_be_told_apart():
    from transformers import BitNetConfig, BitNetForCausalLM

    from tests.models.tiny import GROUPED, drawn

    with pytest.raises(WritesRefused, match="writes of model.layers.0.self_attn cannot be attributed to heads"):
        hw.rank(hw.open_model(drawn(BitNetForCausalLM(BitNetConfig(**GROUPED)))), TEXTS[0])


def test_text_is_read_by_the_tokenizer():
    found = hw.rank(decoder(), ["the cat saw the dog .", "A red bird was near the river ."], "gradient")
    assert (found.attrs["texts"], found.attrs["tokens"]) == (2, 12)

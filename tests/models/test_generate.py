"""What a model writes, greedily and with its cache: its steps joined, which must be a run over the whole text."""

from functools import cache

import pytest
import torch
import transformers
from transformers import DynamicCache

import headwise as hw
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.generation.decode_merge import CannotMerge, DecodeMerge
from headwise.models.generation.generation_request import cache_disagreement
from headwise.models.layout import AttentionSite, Layout
from tests.models.tiny import FAMILIES, build, drawn

IDS = torch.tensor([[5, 17, 31, 8, 44, 9, 61], [0, 0, 23, 4, 77, 12, 50]])
MASK = (IDS != 0).long()
LEFT = {"input_ids": IDS, "attention_mask": MASK, "position_ids": (MASK.cumsum(-1) - 1).clamp(min=0)}
BOTH = {"input_ids": IDS, "attention_mask": MASK}
DECODERS = ["llama", "mistral", "gemma2", "gpt_oss"]  # windows of 4 in the last three: shorter than the text, so that caches drop keys
STEPS = 6


@cache
def generation(name):
    """A model, what it went on with, and a run over the same tokens in one pass."""
    hf = build(name)
    model = hw.open_model(hf)
    run = model.generate(LEFT if name in DECODERS else BOTH, STEPS)
    given = dict(run._forward_pass.inputs)
    return hf, run, model.run(given)


@pytest.mark.parametrize("name", [*DECODERS, "t5", "bart"])
def test_joined_steps_are_a_run_on_the_full_text(name):
    """Queries and keys of two passes differ by rounding that the layers before amplify: weights by as much as the model's own outputs allow."""
    _, run, whole = generation(name)
    assert list(run.parts) == list(whole.parts) and run.notes == tuple(note for note in run.notes if "could not be joined" not in note)
    for part, right in whole.parts.items():
        found = run.parts[part]
        assert dict(found.sizes) == dict(right.sizes)
        assert (found["layer_name"].values == right["layer_name"].values).all()
        assert (found["padding"].values == right["padding"].values).all()
        assert (found["token"].values == right["token"].values).all()
        for statistic in right:
            if statistic == "peak":
                continue
            allowed = 2e-5 * (1 + abs(right[statistic]))
            off = abs(found[statistic] - right[statistic])
            assert ((off <= allowed) | right[statistic].isnull()).all(), (part, statistic, float(off.max()))
            assert (found[statistic].isnull() == right[statistic].isnull()).all()
        for layer in range(right.sizes["layer"]):
            for row in range(2):
                one, other = (x.weights(layer, 1, batch=row, part=part) for x in (run, whole))
                torch.testing.assert_close(one, other, atol=2e-5, rtol=0, equal_nan=True)
                assert ((one == 0) == (other == 0)).all()
        writes, others = run.writes_of(part), whole.writes_of(part)
        assert float(abs(writes["norm"] - others["norm"]).max()) < 1e-4 * (1 + float(others["norm"].max()))


@pytest.mark.parametrize("name", [*DECODERS, "t5", "bart"])
def test_the_proof_compares_joined_steps_with_one_pass_of_the_model(name):
    _, run, whole = generation(name)
    assert run.proof.passed, str(run.proof)
    verdicts = run.proof.verdicts
    assert verdicts["model"].residual > 0  # other products of matrices than one pass makes: it is really the steps that are judged
    assert run.outputs["logits"].shape == whole.outputs["logits"].shape


@pytest.mark.parametrize("name", DECODERS)
def test_the_new_tokens_are_those_of_transformers(name):
    hf, run, _ = generation(name)
    right = hf.generate(input_ids=IDS, attention_mask=MASK, max_new_tokens=STEPS, do_sample=False, pad_token_id=0)
    for row in range(2):
        ended = (right[row, 7:] == 2).nonzero().flatten().tolist()
        stop = 7 + ended[0] + 1 if ended else right.shape[1]
        assert run.tokens[row][7:stop] == [str(x) for x in right[row, 7:stop].tolist()]
    assert run.statistics.sizes["query"] == right.shape[1]


def test_each_new_row_is_what_its_step_saw():
    hf = build("llama")
    run = hw.open_model(hf).generate({"input_ids": IDS[:1]}, 4)
    ids = torch.tensor([[int(x) for x in run.tokens[0]]])
    hf.set_attn_implementation("eager")
    with torch.no_grad():
        cache, rows = DynamicCache(config=hf.config), []
        for step in range(6, ids.shape[1]):
            given = ids[:, : step + 1] if step == 6 else ids[:, step : step + 1]
            out = hf(input_ids=given, cache=cache, use_cache=True, output_attentions=True)
            rows.append(out.attentions[1][0, 2, -1])
    for step, row in enumerate(rows, 6):
        torch.testing.assert_close(run.weights(1, 2)[step, : step + 1], row, atol=1e-6, rtol=1e-5)


def test_what_did_not_fit_is_made_again_step_by_step():
    hf, run, _ = generation("mistral")
    small = hw.open_model(hf).generate(LEFT, STEPS, memory=0)
    assert not small._store.calls
    assert torch.equal(small.weights(2, 3, batch=1), run.weights(2, 3, batch=1)) or torch.equal(small.weights(2, 3), run.weights(2, 3))
    assert torch.equal(small.outputs["logits"], run.outputs["logits"])


def test_a_saved_generation_keeps_its_weights(tmp_path):
    _, run, _ = generation("gemma2")
    run.save(tmp_path / "run")
    found = hw.load_run(tmp_path / "run")
    torch.testing.assert_close(found.weights(1, 4, batch=1), run.weights(1, 4, batch=1), equal_nan=True, rtol=0, atol=1e-6)
    assert found.tokens == run.tokens


def test_attention_that_a_model_computes_itself_is_joined_too():
    config = transformers.BloomConfig(vocab_size=97, hidden_size=24, n_layer=2, n_head=6, bos_token_id=1, eos_token_id=96, pad_token_id=0)
    model = hw.open_model(drawn(transformers.BloomForCausalLM(config)))
    run = model.generate(BOTH, 5)
    whole = model.run(dict(run._forward_pass.inputs))
    assert run.proof.passed, str(run.proof)
    for row in range(2):
        torch.testing.assert_close(run.weights(1, 2, batch=row), whole.weights(1, 2, batch=row), atol=2e-5, rtol=0, equal_nan=True)


def test_a_row_that_ends_early_is_padding_after_its_end():
    hf = build("llama")
    plain = hw.open_model(hf).generate(LEFT, STEPS)
    end = int(plain.tokens[0][9])
    assert all(end != int(x) for x in plain.tokens[1][7:])
    hf.generation_config.eos_token_id = end
    run = hw.open_model(hf).generate(LEFT, STEPS)
    assert run.tokens[1] == plain.tokens[1]
    assert run.statistics["padding"].values[0].tolist() == [False] * 10 + [True] * 3
    assert run.statistics["entropy"][0, :, :, 10:].isnull().all()
    assert run.proof.passed, str(run.proof)


def test_steps_that_are_no_rows_of_one_attention_are_read_in_one_pass(monkeypatch):
    def refuse(*_):
        raise CannotMerge("its cache holds something else")

    monkeypatch.setattr(DecodeMerge, "add", refuse)
    run = hw.open_model(build("llama")).generate(LEFT, 3)
    assert "as steps could not be joined: its cache holds something else" in run.notes[-1]
    assert run.statistics.sizes["query"] == 10
    assert run.proof.passed


def record(query, key, offset, scale=1.0):
    from headwise.attention.attend import compute
    from headwise.attention.call import Call
    from headwise.models.capture.attention_request import AttentionRequest

    call = Call(scale=scale, offset=torch.tensor([offset]), causal=True)
    return AttentionRecord(0, AttentionRequest(query, key, key, call), compute(query, key, key, call), None, None)


@pytest.mark.parametrize(
    ("key", "offset", "scale", "message"),
    [
        (lambda keys: keys[:, :, :5] + 1, 4, 1.0, "a does not keep the keys and values"),
        (lambda keys: keys[:, :, :5], 3, 1.0, "a counts the positions of a step otherwise"),
        (lambda keys: keys[:, :, :5], 4, 2.0, "a computes a step by another scale"),
    ],
)
def test_what_cannot_be_joined_is_said(key, offset, scale, message):
    keys, query = torch.randn(1, 2, 5, 3), torch.randn(1, 2, 5, 3)
    layout = Layout((AttentionSite(0, "a", False, None, None),))
    merge = DecodeMerge()
    merge.add(layout, [record(query[:, :, :4], keys[:, :, :4], 0)])
    with pytest.raises(CannotMerge, match=message):
        merge.add(layout, [record(query[:, :, 4:], key(keys), offset, scale)])


def test_a_step_that_would_choose_otherwise_is_noted():
    given = {"input_ids": torch.tensor([[1, 2, 3]])}
    logits = torch.zeros(1, 3, 5)
    logits[0, 0, 2] = logits[0, 1, 4] = 1
    assert "new token 1 of batch row 0 would be another" in cache_disagreement(given, logits, 1)
    logits[0, 1, 3] = 2
    assert cache_disagreement(given, logits, 1) is None


@pytest.mark.parametrize(
    ("name", "count", "kind", "message"),
    [
        ("llama", 0, ArgumentError, "max_new_tokens must be at least 1, got 0"),
        ("llama", 1.5, ArgumentTypeError, "max_new_tokens must be an int, got float"),
        ("gpt2", 5000, ArgumentError, r"text and new tokens must fit the model's 1024 positions, got 7 \+ 5000"),
        ("bert", 3, ModelError, "a model must have a language head to generate, got BertModel"),
    ],
)
def test_bad_input(plain, name, count, kind, message):
    with pytest.raises(kind, match=message):
        hw.open_model(build(name)).generate(IDS[:1], count)


def test_labels_of_tokens_are_for_runs(plain):
    with pytest.raises(ArgumentError, match="statistics of a generation must need no labels, got 'segment'"):
        hw.open_model(build("llama")).generate(IDS[:1], 2, statistics=["segment"])


def test_every_decoder_of_these_tests_has_a_language_head():
    assert {name for name in DECODERS if not FAMILIES[name].model.endswith(("CausalLM", "LMHeadModel"))} == set()

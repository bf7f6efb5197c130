"""A proof passes on right numbers, and each kind of wrong number makes its own verdict fall."""

from dataclasses import replace

import pytest
import torch
from transformers import AttentionInterface

import headwise as hw
from headwise.models.capture import forward_pass
from headwise.models.verification import call_judge as judge
from headwise.models.verification.call_judge import sample_rows
from headwise.models.verification.logit_parity import max_difference
from headwise.verdict import Verdict, WorstCase
from tests.models.tiny import FAMILIES, build, given, ids


def run_of(name="gemma2", padding=None):
    return hw.open_model(build(name)).run(given(FAMILIES[name], padding=padding))


def failed(proof):
    return {name for name, verdict in proof.verdicts.items() if verdict.passed is False}


def with_statistic(run, name, change):
    numbers = run._metadata.numbers[1]
    changed = dict(numbers.statistics) | {name: change(numbers.statistics[name].clone())}
    run._metadata.numbers[1] = replace(numbers, statistics=changed)


def one_off(x):
    x[1, 4, 10] += 1e-3
    return x


@pytest.mark.parametrize("name", ["entropy", "max_weight", "participation", "distance", "first", "previous", "self", "sink"])
def test_a_wrong_statistic_is_seen(name):
    run = run_of()
    with_statistic(run, name, one_off)
    assert failed(run.proof) == {"statistics"}
    verdict = run.proof.verdicts["statistics"]
    assert verdict.residual > verdict.allowed
    assert verdict.place.startswith("self layer 1, query 10, head 4, batch row 1")
    assert verdict.place.endswith(name)
    assert "FAILED" in str(run.proof)
    assert not run.proof.passed


def test_a_wrong_peak_is_seen():
    run = run_of("bert")
    with_statistic(run, "peak", lambda x: (x + 1) % 11)
    assert failed(run.proof) == {"statistics"}


def test_nan_is_seen():
    run = run_of()
    with_statistic(run, "entropy", lambda x: x.fill_(torch.nan))
    assert failed(run.proof) == {"statistics"}


def test_padding_is_not_judged():
    run = run_of("bert", padding="right")
    with_statistic(run, "entropy", lambda x: x.index_fill(2, torch.tensor([8, 9, 10]), 7.0))
    assert failed(run.proof) == {"statistics"}  # the first row is all real
    again = run_of("bert", padding="right")

    def only_padding(x):
        x[1, :, -4:] = 7.0
        return x

    with_statistic(again, "entropy", only_padding)
    assert again.proof.passed


def spoiled(change):
    """Weights as the run would give them, changed."""
    right = judge.weights

    def wrong(query, key, lse, call, rows, keys):
        return change(right(query, key, lse, call, rows, keys).clone())

    return wrong


def leak(found):
    return found + 1e-6 * (found == 0)


def shifted(found):
    return found.roll(1, -1)


@pytest.mark.parametrize(
    ("change", "verdicts"),
    [(lambda w: w * 1.001, {"rows", "weights"}), (leak, {"hidden"}), (shifted, {"weights", "hidden"})],
)
def test_wrong_weights_are_seen(change, verdicts, monkeypatch):
    run = run_of()
    monkeypatch.setattr(judge, "weights", spoiled(change))
    assert verdicts <= failed(run.proof)


def test_wrong_words_are_seen(monkeypatch):
    run = run_of()
    right = judge.CallJudge.__call__

    def wrong(self, record):
        attended = replace(record.attended, output=record.attended.output * 1.001)
        right(self, replace(record, attended=attended))

    monkeypatch.setattr(judge.CallJudge, "__call__", wrong)
    assert failed(run.proof) == {"output"}


def test_a_wrong_w_o_is_seen(monkeypatch):
    run = run_of()
    right = judge.w_o_by_head
    monkeypatch.setattr(judge, "w_o_by_head", lambda module, heads: right(module, heads).flip(0))
    assert failed(run.proof) == {"writes"}


def test_a_forgotten_bias_is_seen(monkeypatch):
    run = run_of("gpt2")
    monkeypatch.setattr(judge, "w_o_bias", lambda module: None)
    assert failed(run.proof) == {"writes"}


def test_other_outputs_than_the_model_s_are_seen():
    run = run_of()
    run._outputs = {name: x * 1.001 for name, x in run._outputs.items()}
    assert failed(run.proof) == {"model"}


@pytest.mark.parametrize("name", ["gemma2", "mistral"])
def test_an_attention_that_forgets_something_is_seen_against_the_model_as_loaded(name, monkeypatch):
    """The pass is right in itself but computes another function: only the model as loaded can tell."""
    from headwise.models.capture import hf_attention as tap

    right = tap.parse_request
    wrong = {"softcap": None} if name == "gemma2" else {"mask": None, "causal": True}

    def read(*args, **keywords):
        request = right(*args, **keywords)
        return replace(request, call=replace(request.call, **wrong))

    monkeypatch.setattr(tap, "parse_request", read)
    assert failed(run_of(name).proof) == {"model"}


def test_a_model_is_judged_by_rounding_whether_it_has_one_implementation_or_two():
    proof = run_of("gpt_oss").proof
    verdict = proof.verdicts["model"]
    assert proof.passed
    assert verdict.sentence == "the outputs are those of the model as it was loaded"
    assert run_of("llama").proof.verdicts["model"].sentence == verdict.sentence


def test_a_model_loaded_with_an_implementation_of_the_user_s_is_judged_by_it():
    def own(module, query, key, value, attention_mask, scaling=None, **rest):
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        z = torch.nn.functional.scaled_dot_product_attention(query, key, value, attention_mask, scale=scaling, is_causal=attention_mask is None)
        return z.transpose(1, 2).contiguous(), None

    from transformers import AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register("headwise_test_own", own)
    AttentionMaskInterface.register("headwise_test_own", sdpa_mask)
    hf = build("llama")
    hf.set_attn_implementation("headwise_test_own")
    assert hw.open_model(hf).run(given(FAMILIES["llama"])).proof.passed
    assert hf.config._attn_implementation == "headwise_test_own"


def test_the_model_is_compared_as_it_was_loaded_and_with_no_other_implementation(monkeypatch):
    used = []
    right = forward_pass.ForwardPass.run_unmodified
    monkeypatch.setattr(
        forward_pass.ForwardPass, "run_unmodified", lambda self, implementation=None: (used.append(implementation), right(self, implementation))[1]
    )
    assert run_of("llama").proof.passed
    assert used == [None]


def test_rows_that_are_judged():
    assert sample_rows(1) == [0]
    assert sample_rows(8) == list(range(8))
    for queries in (9, 100, 5000):
        rows = sample_rows(queries)
        assert rows[0] == 0
        assert rows[-1] == queries - 1
        assert len(set(rows)) == 8


def test_the_worst_is_what_uses_up_most_of_what_is_allowed():
    worst = WorstCase("rows", "rows add up to 1")
    assert worst.verdict("no row is real") == Verdict("rows", "rows add up to 1: no row is real", None)
    for residual, allowed, place in ((1e-6, 1e-5, "a"), (2e-6, 4e-6, "b"), (0.0, 0.0, "c")):
        worst.add(residual, allowed, place)
    assert (worst.verdict().place, worst.verdict().passed) == ("b", True)
    worst.add(1e-9, 0.0, "d")
    assert (worst.verdict().place, worst.verdict().passed) == ("d", False)
    assert "rows add up to 1 (off by 1e-09, rounding allows 0 at d)" in str(worst.verdict())
    worst = WorstCase("rows", "rows add up to 1")
    worst.add(float("nan"), 1.0, "e")
    assert worst.verdict().passed is False


def test_the_largest_difference_on_tokens_that_count():
    x, y = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
    y[1, 2, 3], y[0, 1, 0] = 5.0, 2.0
    real = torch.tensor([[True, True, True], [True, True, False]])
    assert max_difference(x, y, None) == 5
    assert max_difference(x, y, real) == 2
    y[0, 0, 0] = x[0, 0, 0] = torch.inf
    assert max_difference(x, y, real) == 2
    y[0, 0, 1] = torch.nan
    assert max_difference(x, y, real) != max_difference(x, y, real)
    assert max_difference(torch.tensor(1.0), torch.tensor(3.0), None) == 2
    assert max_difference(torch.zeros(0, 3), torch.zeros(0, 3), None) == 0


@pytest.mark.parametrize("measure", ["_rounded_otherwise", "_in_float64"])
def test_where_layers_amplify_rounding_the_model_s_own_rounding_is_measured(measure, monkeypatch):
    """MobileBERT's layers amplify rounding: its own outputs move by as much when they are rounded otherwise."""
    from headwise.models.verification import logit_parity as parity

    run = run_of("llama")
    own = forward_pass.output_tensors(run._forward_pass.run_unmodified())
    for name in ("_rounded_otherwise", "_in_float64"):
        monkeypatch.setattr(parity, name, lambda *_, moved=1e-3 * (name == measure): {"logits": own["logits"].double() + moved})
    found = parity.logit_parity(run._forward_pass, {"logits": own["logits"] + 3e-3})
    assert found.passed and "within 4 times its own rounding, measured" in found.sentence
    assert parity.logit_parity(run._forward_pass, {"logits": own["logits"] + 5e-3}).passed is False


@pytest.mark.parametrize("measure", ["_rounded_otherwise", "_in_float64"])
def test_a_model_rounded_otherwise_differs_by_its_rounding_alone(measure):
    from headwise.models.verification import logit_parity as parity

    run = run_of("llama")
    own = forward_pass.output_tensors(run._forward_pass.run_unmodified())["logits"]
    rounding = max_difference(getattr(parity, measure)(run._forward_pass)["logits"].double(), own.double(), None)
    assert 0 < rounding < 1e-3 * float(own.abs().max())


def test_a_model_that_gives_nan_itself_is_not_judged_by_it(monkeypatch):
    from headwise.models.verification import logit_parity as agreement

    run = run_of("llama")
    plain = forward_pass.ForwardPass.run_unmodified

    def spoiled(self, implementation=None):
        out = plain(self, implementation)
        out["logits"][0, 3] = torch.nan
        return out

    monkeypatch.setattr(forward_pass.ForwardPass, "run_unmodified", spoiled)
    found = agreement.logit_parity(run._forward_pass, run.outputs)
    assert found.passed is None
    assert "logits of the model as it was loaded holds NaN where a run gives numbers" in found.sentence
    wrong = run.outputs["logits"].clone()
    wrong[1, 2] = torch.nan
    assert agreement.logit_parity(run._forward_pass, {"logits": wrong}).passed is False


def test_what_eager_and_sdpa_differ_by_is_told_and_allows_nothing():
    """Without a causal mask sdpa asks the module, which is not causal here; eager would have masked later keys."""
    hf = build("llama")
    for layer in hf.model.layers:
        layer.self_attn.is_causal = False
    inputs = given(FAMILIES["llama"])
    run = hw.open_model(hf).run(inputs)
    with torch.no_grad():
        own = hf(**inputs).logits
    assert (run.outputs["logits"] - own).abs().max() < 1e-5 * own.abs().max()
    assert bool((run.weights(0, 0)[0] > 0).all())
    assert any("eager and sdpa differ on this input: eager hides later keys, sdpa does not; the model was loaded with sdpa" in note for note in run.notes)
    verdict = run.proof.verdicts["model"]
    assert verdict.passed and "with sdpa; eager differs on this input by" in verdict.sentence
    assert verdict.allowed < 1e-4 * float(own.abs().max())
    hf.set_attn_implementation("eager")
    eager = hw.open_model(hf).run(inputs)
    assert int((eager.weights(0, 0)[0] > 0).sum()) == 1
    assert eager.proof.passed and "with eager; sdpa differs on this input by" in eager.proof.verdicts["model"].sentence


def test_packed_positions_are_read_as_the_loaded_model_reads_them():
    """With a cache transformers does not look for several texts in one row; without one it keeps them apart."""
    hf, inputs = build("llama"), {"input_ids": ids(1, 13), "position_ids": torch.cat([torch.arange(5), torch.arange(8)])[None]}
    for cached in (True, False):
        hf.config.use_cache = cached
        run = hw.open_model(hf).run(inputs)
        with torch.no_grad():
            own = hf(**inputs).logits
        assert (run.outputs["logits"] - own).abs().max() < 1e-5 * own.abs().max()
        assert (run.weights(0, 0)[12, 0] > 0) == cached
        assert run.proof.passed, str(run.proof)

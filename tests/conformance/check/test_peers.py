"""Peers as their documentation says: each gives what is right under its conventions. Those of the extra `peers` where they are installed."""

from importlib.util import find_spec

import pytest
import torch

from headwise.conformance.adapters.convention_probe import probe, probe_problem, random_numbers, share_wrong
from headwise.conformance.adapters.resolve import peers, resolve
from headwise.conformance.answer import Answer, CallMode

CHEAP = {"torch_compiled": {"backend": "eager"}}  # without a compiler; what it traces is the same
PADDED = (torch.arange(5) < torch.tensor([5, 3])[:, None])[:, None, None]
SOME = {"head_dim": 8, "value_dim": 8}


def questions(supports: frozenset[str]) -> dict:
    """A few problems, for every word that a subject knows."""
    found = {"plain": probe_problem(**SOME), "square": probe_problem(queries=5, **SOME)}
    by_word = {
        "causal": {
            "causal": probe_problem(causal=True, **SOME),
            "all": probe_problem(queries=5, causal=True, **SOME),
            "one": probe_problem(queries=1, causal=True, **SOME),
        },
        "groups": {"groups": probe_problem(heads=4, queries=5, causal="causal" in supports, **SOME)},
        "mask": {
            "padding": probe_problem(queries=5, mask=PADDED, **SOME),
            "plane": probe_problem(queries=5, mask=torch.arange(25).reshape(5, 5) % 3 > 0, **SOME),
        },
        "bias": {"bias": probe_problem(queries=5, bias=random_numbers(2, 5, 5, seed=5), causal="causal" in supports, **SOME)},
        "window": {"window": probe_problem(queries=5, causal="causal" in supports, window=2, **SOME)},
        "softcap": {"softcap": probe_problem(queries=5, softcap=0.5, causal="causal" in supports, **SOME)},
        "sink": {"sink": probe_problem(queries=5, sink=random_numbers(2, seed=6), causal="causal" in supports, **SOME)},
        "scale": {"scale": probe_problem(queries=5, scale=0.7, **SOME)},
    }
    for word, some in by_word.items():
        found |= some if word in supports else {}
    return found


@pytest.mark.parametrize("name", peers())
def test_a_peer_is_right_where_its_documentation_says_so(plain, name):
    lacking = [module for module in peers()[name].needs if find_spec(module) is None]
    if lacking:
        pytest.skip(f"{name} needs {', '.join(lacking)}, of the extra peers")
    for found in resolve(name, CHEAP.get(name, {})):
        subject, answered = found.subject, 0
        for said, problem in questions(subject.supports).items():
            got = probe(subject, problem) if subject.level == "call" else None
            if isinstance(got, Answer):
                answered += 1
                assert share_wrong(subject, problem) == 0, f"{subject.name}: {said}"
        assert answered > 1 or subject.level == "layer", subject.name


@pytest.mark.parametrize("name", ["transformers_eager", "transformers_sdpa", "transformers_headwise"])
def test_gradients_and_weights_come_out_of_a_tiny_model(plain, name):
    for found in resolve(name, {"model": "llama"}):
        problem = questions(frozenset())["square"].replace(causal=True)
        answer = found.subject.attend(problem, CallMode(upstream=torch.ones(2, 2, 5, 8)))
        right = problem.expected(found.subject.conventions, torch.ones(2, 2, 5, 8, dtype=torch.float64))
        for slope in ("query", "key", "value"):
            torch.testing.assert_close(answer.gradients[slope].double(), right.gradients[slope], rtol=1e-4, atol=1e-5)
        if "weights" in found.subject.supports:
            torch.testing.assert_close(found.subject.attend(problem, CallMode(weights=True)).weights.double(), right.weights, rtol=1e-4, atol=1e-5)


def test_a_tiny_model_has_a_window_a_cap_a_sink_and_a_cache():
    by_model = {found.subject.name.rpartition(" ")[2]: found.subject for found in resolve("transformers_eager")}
    assert set(by_model) == {"llama", "mistral", "gemma2", "gpt_oss", "bert"}
    cached = {"queries": 2, "keys": 6, "causal": True, **SOME}
    assert share_wrong(by_model["llama"], plain_(heads=4, **cached)) == 0
    assert share_wrong(by_model["mistral"], plain_(window=3, **cached)) == 0
    assert share_wrong(by_model["gemma2"], plain_(window=3, softcap=0.5, **cached)) == 0
    assert share_wrong(by_model["gpt_oss"], plain_(sink=random_numbers(2, seed=6), **cached)) == 0
    assert "groups" not in by_model["bert"].supports


plain_ = probe_problem


@pytest.mark.parametrize(
    ("model", "problem", "said"),
    [
        ("llama", {"queries": 5, "keys": 3}, "self-attention has a query for every key, but for those of a cache."),
        ("bert", {"queries": 3, "keys": 5}, "self-attention has a query for every key, but for those of a cache."),
        ("mistral", {"queries": 5, "window": 2}, "windows are of causal models, and lie behind the query."),
        ("mistral", {"queries": 5, "causal": True, "window": (1, 1)}, "windows are of causal models, and lie behind the query."),
        ("mistral", {"queries": 2, "causal": True, "window": 1}, "a cache that keeps a window has no room for a mask of the caller's."),
    ],
)
def test_what_a_tiny_model_cannot_be_asked(plain, model, problem, said):
    (found,) = resolve("transformers_eager", {"model": model})
    assert str(probe(found.subject, plain_(**problem))) == said


def test_the_findings_of_torch(plain):
    """What is known to be wrong in torch 2.13 on a CPU, and nothing else."""
    from headwise.conformance.check import check

    sdpa = check("torch_sdpa")
    fallen = {failure.invariant: failure for failure in sdpa.failures}
    assert set(fallen) == {"explicit_scale", "nan_propagation"}, str(sdpa)
    scaled = fallen["explicit_scale"].finding
    assert scaled.problem.causal and scaled.problem.scale <= 0
    assert bool(scaled.got.isnan().any()) and not bool(scaled.expected.isnan().any())

    mha = check("torch.nn:MultiheadAttention", arguments={"embed_dim": 16, "num_heads": 4})
    reasons = [(failure.invariant, failure.diagnosis.mutation if failure.diagnosis else None, failure.finding) for failure in mha.failures]
    dead = next(found for law, attack, found in reasons if attack in ("fully_masked_rows_give_nan", "guard_missing_without_gradients"))
    assert dead.mode.weights and bool(dead.got.isnan().any())
    assert any(attack == "causal_flag_overrides_mask" for _, attack, _ in reasons), str(mha)


def test_padding_that_broadcasts_is_padding_of_every_token():
    (found,) = resolve("transformers_eager", {"model": "mistral"})
    assert share_wrong(found.subject, plain_(queries=5, causal=True, mask=torch.ones(1, 1, 1, 1, dtype=torch.bool), **SOME)) == 0


def test_a_mask_by_head_may_be_of_float64():
    (found,) = resolve("transformers_eager", {"model": "llama"})
    problem = plain_(queries=5, mask=torch.arange(25).reshape(5, 5) % 3 > 0, **SOME).to(torch.float64)
    assert found.subject.attend(problem).output.dtype == torch.float64


def test_keys_that_have_left_the_window_of_a_cache_have_no_weight():
    (found,) = resolve("transformers_eager", {"model": "mistral"})
    problem = plain_(queries=1, keys=6, causal=True, window=3, **SOME)
    weights = found.subject.attend(problem, CallMode(weights=True)).weights
    torch.testing.assert_close(weights.double(), problem.expected(found.subject.conventions).weights, rtol=1e-5, atol=1e-6)


def test_experts_know_no_float64():
    (found,) = resolve("transformers_eager", {"model": "gpt_oss"})
    assert torch.float64 not in found.subject.dtypes and torch.float64 in resolve("transformers_eager", {"model": "llama"})[0].subject.dtypes


def test_a_problem_is_cut_to_what_grouped_query_attention_takes():
    pytest.importorskip("onnxruntime", reason="onnxruntime is of the extra peers")
    (found,) = resolve("onnx_grouped")
    for problem in (plain_(heads=4), plain_(queries=7), plain_(queries=5, window=(1, 1)), plain_(queries=5, window=(None, 2)), plain_(queries=1)):
        cut = found.subject.cut(problem)
        assert cut.causal and cut.query.shape[3] == 8 and not isinstance(cut.window, tuple)
        assert share_wrong(found.subject, cut) == 0

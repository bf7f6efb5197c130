"""Every family: weights and statistics against float64 on the same queries and keys, outputs against transformers' own."""

from dataclasses import replace
from functools import cache

import pytest
import torch

import headwise as hw
from tests.models.oracle import recorded, statistics_of, weights_of
from tests.models.tiny import FAMILIES, build, given

PADDINGS = (None, "right", "left")


@cache
def opened(name, padding=None):
    """A model of the family, inputs for it, and a run: built once, as these tests change neither."""
    hf, inputs = build(name), given(FAMILIES[name], padding=padding)
    return hf, inputs, hw.open_model(hf).run(inputs)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_weights_and_statistics_are_those_of_float64(name, padding):
    hf, inputs, run = opened(name, padding)
    calls = recorded(hf, inputs)
    assert len(calls) == len(run._metadata.places)
    for place, call in zip(run._metadata.places, calls, strict=True):
        kept = run._stored_call(place.index)
        right = weights_of(kept.query, kept.key, call)
        found = run.parts[place.part]
        real = ~torch.from_numpy(found["padding"].values)
        for batch in range(place.batch):
            for head in range(place.heads):
                ours = run.weights(place.layer, head, batch=batch, part=place.part)
                torch.testing.assert_close(ours[real[batch]].double(), right[batch, head][real[batch]], rtol=0, atol=5e-6)
                assert ours[~real[batch]].isnan().all()
        for statistic, expected in statistics_of(right, call).items():
            if place.cross and statistic in ("distance", "previous", "self"):
                assert found[statistic].isnull().all()
                continue
            if statistic == "first" and padding == "left":
                start = 4 if "decoder" not in place.part or place.cross else 0
                expected = expected.clone()
                expected[1] = right[1, :, :, start]
            got = torch.from_numpy(found[statistic].values[:, place.layer]).double()
            spread = real[:, None].expand(got.shape)
            allowed = 1e-5 * (1 + expected[spread].abs())
            assert ((got[spread] - expected[spread]).abs() <= allowed).all(), statistic
            assert got[~spread].isnan().all()
        peak = torch.from_numpy(found["peak"].values[:, place.layer])
        at_peak = right.gather(-1, peak.clamp(min=0)[..., None])[..., 0]
        assert (at_peak >= right.amax(-1) - 5e-6)[real[:, None].expand(peak.shape)].all()
        assert (peak[~real[:, None].expand(peak.shape)] == -1).all()


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_are_the_model_s_own(name, padding):
    family = FAMILIES[name]
    hf, inputs, run = opened(name, padding)
    names = ("eager", "sdpa") if family.sdpa else ("eager",)
    eager, *others = (_own(hf, inputs, implementation) for implementation in names)
    key = "logits" if "logits" in eager else "last_hidden_state"
    real = inputs["attention_mask"].bool() if padding and not family.decoder else torch.ones(eager[key].shape[:2], dtype=torch.bool)
    difference = (run.outputs[key] - eager[key])[real].abs().max()
    size = eager[key][real].abs().max()
    allowed = 4 * (others[0][key] - eager[key])[real].abs().max() if others else 256 * torch.finfo(torch.float32).eps * size
    assert difference <= max(allowed, 2 * torch.finfo(torch.float32).eps * size)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_proof_passes(name, padding):
    *_, run = opened(name, padding)
    assert run.proof.passed, str(run.proof)
    assert list(run.proof.verdicts) == ["rows", "weights", "hidden", "output", "statistics", "writes", "model"]
    assert all(verdict.passed for verdict in run.proof.verdicts.values())


@pytest.mark.parametrize(
    ("name", "feature", "absent"),
    [
        ("gemma2", "softcap", None),
        ("gpt_oss", "sink", None),
        ("t5", "bias", None),
        ("mistral", "mask", None),
        ("gemma2", "scaling", 0.5),
        ("modernbert", "mask", None),
    ],
)
def test_dropping_a_feature_would_be_seen(name, feature, absent):
    """The models of these tests are drawn so that a forgotten feature moves weights by far more than the tests allow."""
    hf, inputs, run = opened(name)
    moved = 0.0
    for place, call in zip(run._metadata.places, recorded(hf, inputs), strict=True):
        kept = run._stored_call(place.index)
        without = weights_of(kept.query, kept.key, replace(call, **{feature: absent}))
        moved = max(moved, (without - weights_of(kept.query, kept.key, call)).abs().max().item())
    assert moved > 0.05


def _own(hf, inputs, implementation):
    before = hf.config._attn_implementation
    hf.set_attn_implementation(implementation)
    try:
        with torch.no_grad():
            return hf(**inputs)
    finally:
        hf.set_attn_implementation(before)

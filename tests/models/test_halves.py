"""Models in float16 and bfloat16: what may differ follows from the dtype's own rounding."""

import pytest
import torch

import headwise as hw
from tests.models.tiny import FAMILIES, build, given

HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["llama", "gemma2", "t5"])
def test_weights_are_within_the_rounding_of_the_dtype(name, dtype):
    """Through us, a half's weights are as far from those of the same weights in float32 as eager's own are, at most four times."""
    half = build(name).to(dtype)
    wide = build(name).to(dtype).float()  # the same numbers, computed with more digits
    inputs = given(FAMILIES[name])
    run, right = hw.open_model(half).run(inputs), hw.open_model(wide).run(inputs)
    assert run.proof.passed, str(run.proof)
    eager = attentions(half, inputs)
    exact = attentions(wide, inputs)
    for part, found in eager.items():
        own = max((x.float() - y).abs().max().item() for x, y in zip(found, exact[part], strict=True))
        layers = range(run.parts[part].sizes["layer"])
        ours = max((run.weights(layer, 3, part=part) - right.weights(layer, 3, part=part)).abs().max().item() for layer in layers)
        assert 0 < ours <= 4 * own, (part, ours, own)


@pytest.mark.parametrize("dtype", HALVES)
def test_statistics_are_in_float32(dtype):
    run = hw.open_model(build("mistral").to(dtype)).run(given(FAMILIES["mistral"], padding="left"))
    assert str(run.statistics["entropy"].dtype) == "float32"
    assert run.weights(0, 0).dtype == torch.float32
    real = ~torch.from_numpy(run.statistics["padding"].values)
    sums = torch.stack([run.weights(1, 2, batch=row).sum(-1) for row in range(2)])
    assert ((sums[real] - 1).abs() < 1e-5).all()


def attentions(hf, inputs):
    """What eager returns, by part."""
    before = hf.config._attn_implementation
    hf.set_attn_implementation("eager")
    with torch.no_grad():
        out = hf(**inputs, output_attentions=True)
    hf.set_attn_implementation(before)
    if "decoder_attentions" in out:
        return {"encoder.self": out.encoder_attentions, "decoder.self": out.decoder_attentions, "decoder.cross": out.cross_attentions}
    return {"self": out.attentions}

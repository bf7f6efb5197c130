"""Planted truth: compare names exactly the heads that were changed, with the right word; what changes all heads a little names none."""

import pytest
import torch

import headwise as hw
from headwise.analysis.checkpoints.compare import compare
from headwise.interventions.head_parameters import HeadMap
from tests.analysis.planted import loaded, named, plant
from tests.models.tiny import FAMILIES

pytestmark = pytest.mark.usefixtures("plain")

SMALL = {(0, 1): "muted", (0, 4): "tempered", (1, 0): "amplified", (1, 3): "sharpened", (2, 2): "rewired", (2, 5): "tied alone"}
MINILM = {
    (0, 3): "muted",
    (1, 5): "amplified",
    (2, 7): "tempered",
    (3, 1): "sharpened",
    (4, 10): "rewired",
    (5, 0): "tied alone",
    (5, 6): "muted",
    (0, 9): "sharpened",
}
SMOLLM2 = {
    (2, 4): "muted",
    (5, 0): "amplified",
    (9, 8): "tempered",
    (12, 2): "sharpened",
    (17, 3): "rewired",
    (20, 3): "tied",
    (20, 8): "muted",
    (29, 1): "tempered",
}


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def small(request):
    hf = FAMILIES[request.param].build()
    return hf, HeadMap(hw.open_model(hf))


def test_a_random_model_with_heads_changed(small):
    hf, head_map = small
    truth = SMALL | ({} if head_map.places[0].key_heads == 6 else {(2, 5): "rewired"})
    planted = plant(hf, head_map, truth)
    assert named(compare(hf, loaded(hf, planted))) == planted.truth


def test_controls_yield_no_verdict(small):
    hf, head_map = small
    for seed in range(3):
        assert named(compare(hf, loaded(hf, plant(hf, head_map, {}, noise=0.05, seed=seed)))) == {}


@pytest.mark.parametrize(("demo", "truth"), [("demo:minilm", MINILM), ("demo:smollm2", SMOLLM2)], ids=["minilm", "smollm2"])
def test_trained_models_with_heads_changed(demo, truth, tmp_path):
    """Weights on disk, read one by one: a copy in bfloat16 with changes; a control with noise, rounded to 8 bits."""
    model = hw.open_model(demo)
    head_map = HeadMap(model)
    planted = plant(model.hf, head_map, truth)
    assert named(compare(demo, _written(model.hf, planted.tensors, tmp_path / "planted", torch.bfloat16))) == planted.truth
    noisy = {name: _eight_bits(x) for name, x in plant(model.hf, head_map, {}, noise=0.03).tensors.items()}
    assert named(compare(demo, _written(model.hf, noisy, tmp_path / "control", torch.float32))) == {}


def test_a_round_trip_through_bfloat16_yields_no_verdict(tmp_path):
    hf = hw.open_model("demo:minilm").hf
    assert named(compare("demo:minilm", _written(hf, dict(hf.named_parameters()), tmp_path / "bf16", torch.bfloat16))) == {}


def _written(hf, tensors, folder, dtype):
    """A checkpoint with these numbers, over what was there."""
    import copy

    other = copy.deepcopy(hf)
    with torch.no_grad():
        for name, x in other.named_parameters():
            x.copy_(tensors[name])
    other.to(dtype).save_pretrained(folder)
    return folder


def _eight_bits(x):
    step = x.abs().max() / 127
    return (x / step).round() * step

"""A short input that fits the model: text, an image, sound."""

import pytest
import torch
from torch import nn
from transformers import ViTConfig, ViTModel, WhisperConfig, WhisperForConditionalGeneration

import headwise as hw
from headwise.errors import ArgumentError
from headwise.models.inputs.sample_input import sample_input
from tests.models.tiny import COMMON, build

SOUND = {"d_model": 24, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 6, "decoder_attention_heads": 6, "vocab_size": 50}
pytestmark = pytest.mark.usefixtures("plain")


@pytest.mark.parametrize("kind", ["text", "image", "sound"])
def test_the_model_runs_on_it(kind):
    torch.manual_seed(0)
    if kind == "text":
        hf = build("gpt2")
    elif kind == "image":
        hf = ViTModel(ViTConfig(**COMMON, image_size=16, patch_size=8)).eval()
    else:
        tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
        hf = WhisperForConditionalGeneration(WhisperConfig(**SOUND, num_mel_bins=8, max_source_positions=20, **tokens)).eval()
    run = hw.open_model(hf).run(sample_input(hf), statistics=())
    assert list(run.parts) == (["encoder.self", "decoder.self", "decoder.cross"] if kind == "sound" else ["self"])


def test_a_model_of_another_kind_must_be_given_its_input():
    layer = nn.TransformerEncoderLayer(24, 6, 20, batch_first=True).eval()
    message = r"inputs must be given for a model that reads no text, image or sound, got TransformerEncoderLayer. Pass a dict of its own inputs."
    with pytest.raises(ArgumentError, match=message):
        hw.open_model(layer).edit(hw.Ablate(0, 1))

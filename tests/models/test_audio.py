"""Sound as speech models read it."""

import wave

import numpy as np
import pytest
import torch
from transformers import Wav2Vec2Config, Wav2Vec2Model, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

from headwise.errors import ArgumentError, ModelError
from headwise.models.inputs.audio import RATE, audio_inputs, audio_with_text, read_wav
from tests.models.tiny import build

TONE = np.sin(np.arange(RATE // 10) / 7).astype(np.float64) / 2


def write(path, samples, rate=RATE, width=2, channels=1):
    scale, shift, kind = {1: (128, 128, np.uint8), 2: (1 << 15, 0, np.int16), 4: (1 << 31, 0, np.int32)}[width]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes((samples * (scale - 1) + shift).astype(kind).tobytes())
    return path


@pytest.mark.parametrize(("width", "allowed"), [(1, 2e-2), (2, 1e-4), (4, 1e-6)])
def test_samples_are_what_was_written(width, allowed, tmp_path):
    found = read_wav(write(tmp_path / "tone.wav", TONE, width=width))
    assert np.abs(found.numpy() - TONE).max() < allowed


def test_channels_are_averaged(tmp_path):
    both = np.stack([TONE, -TONE / 2], 1).ravel()
    found = read_wav(write(tmp_path / "two.wav", both, channels=2))
    assert np.abs(found.numpy() - TONE / 4).max() < 1e-4


def whisper():
    sizes = {"d_model": 12, "vocab_size": 20, "encoder_layers": 1, "decoder_layers": 1, "pad_token_id": 1, "eos_token_id": 1, "bos_token_id": 1}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "decoder_start_token_id": 2}
    return WhisperForConditionalGeneration(WhisperConfig(**sizes, **heads))


class Words:
    """A tokenizer of four words."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def get_vocab(self):
        return self.vocabulary

    def __call__(self, text, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": [self.vocabulary[word] for word in text.split()]}


@pytest.mark.parametrize(("known", "right"), [({"the": 5, "cat": 6}, [2, 5, 6]), ({"the": 5, "cat": 6, "<|notimestamps|>": 9}, [2, 9, 5, 6])])
def test_the_decoder_gets_the_words_behind_its_start(known, right):
    samples = torch.from_numpy(TONE).float()
    given = audio_with_text(whisper(), Words(known), samples, "the cat")
    assert given["decoder_input_ids"].tolist() == [right]
    expected = WhisperFeatureExtractor(feature_size=80)(samples.numpy(), sampling_rate=RATE, return_tensors="pt")["input_features"]
    assert torch.equal(given["input_features"], expected)


def test_a_model_of_samples_gets_samples():
    sizes = {
        "hidden_size": 12,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "intermediate_size": 8,
        "conv_dim": [8] * 7,
        "num_conv_pos_embedding_groups": 3,
    }
    given = audio_inputs(Wav2Vec2Model(Wav2Vec2Config(**sizes, num_conv_pos_embeddings=6)), torch.from_numpy(TONE).float())
    assert given["input_values"].shape == (1, len(TONE))


@pytest.mark.usefixtures("plain")
def test_what_cannot_be_heard(tmp_path):
    samples = torch.from_numpy(TONE).float()
    (tmp_path / "text.wav").write_text("no sound")
    with pytest.raises(ArgumentError, match=r"audio must be a WAV file, got .*text.wav.*Convert it: ffmpeg"):
        read_wav(tmp_path / "text.wav")
    with pytest.raises(ArgumentError, match=r"audio must be a WAV file, got .*none.wav"):
        read_wav(tmp_path / "none.wav")
    with pytest.raises(ArgumentError, match=r"audio must have 16000 samples a second of 1, 2 or 4 bytes, got 44100 a second of 2 bytes"):
        read_wav(write(tmp_path / "fast.wav", TONE, rate=44100))
    with pytest.raises(ArgumentError, match=r"audio must have at least one sample, got none"):
        read_wav(write(tmp_path / "empty.wav", TONE[:0]))
    with pytest.raises(ModelError, match=r"a model must read sound to be given audio, got LlamaForCausalLM"):
        audio_inputs(build("llama"), samples)
    with pytest.raises(ModelError, match=r"This model has no tokenizer to read the transcript with"):
        audio_with_text(whisper(), None, samples, "the")
    with pytest.raises(ArgumentError, match=r"text must be the transcript of the audio, got ''"):
        audio_with_text(whisper(), Words({}), samples, "")

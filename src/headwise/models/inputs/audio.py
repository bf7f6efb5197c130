"""Audio inputs of speech models: the samples of a WAV file, and the features that the model's own extractor makes of them."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headwise.axes import Float, Tensor
from headwise.errors import ArgumentError, ModelError

RATE = 16_000  # samples a second that speech models are trained on
WIDTHS = {1: (np.uint8, 128, 128), 2: (np.int16, 0, 1 << 15), 4: (np.int32, 0, 1 << 31)}  # bytes a sample: type, what silence is, what full scale is


def read_wav(path: str | Path) -> Float[Tensor, " n"]:
    """The samples of a WAV file in [-1, 1], channels averaged.

    Raises:
        ArgumentError: no WAV file of 16,000 samples a second.
    """
    try:
        with wave.open(str(path), "rb") as file:
            rate, channels, width, data = file.getframerate(), file.getnchannels(), file.getsampwidth(), file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise ArgumentError(f"audio must be a WAV file, got {str(path)!r}: {error}. Convert it: ffmpeg -i IN -ar 16000 -ac 1 OUT.wav.") from None
    if rate != RATE or width not in WIDTHS:
        given = f"{rate} a second of {width} bytes in {str(path)!r}"
        raise ArgumentError(f"audio must have {RATE} samples a second of 1, 2 or 4 bytes, got {given}. Convert it: ffmpeg -i IN -ar 16000 OUT.wav.")
    kind, silence, scale = WIDTHS[width]
    samples = (np.frombuffer(data, kind).astype(np.float32) - silence) / scale
    if samples.size == 0:
        raise ArgumentError(f"audio must have at least one sample, got none in {str(path)!r}. Record some.")
    return torch.from_numpy(samples.reshape(-1, channels).mean(1))


def audio_inputs(hf: nn.Module, samples: Float[Tensor, " n"]) -> dict[str, Any]:
    """A model's input for this audio: log-mel features for Whisper and related models, samples for wav2vec2 and related models.

    Raises:
        ModelError: the model does not read sound.
    """
    from transformers import WhisperFeatureExtractor

    name = getattr(hf, "main_input_name", "")
    bands = getattr(getattr(hf, "config", None), "num_mel_bins", None)
    if name == "input_values":
        return {"input_values": samples[None]}
    if name != "input_features" or not isinstance(bands, int):
        raise ModelError(f"a model must read sound to be given audio, got {type(hf).__name__}. Leave the audio out.")
    found = WhisperFeatureExtractor(feature_size=bands)(samples.numpy(), sampling_rate=RATE, return_tensors="pt")
    return {"input_features": found["input_features"]}


def audio_with_text(hf: nn.Module, tokenizer: Any, samples: Float[Tensor, " n"], text: str) -> dict[str, Any]:
    """Audio for the encoder and text for the decoder, after its start token.

    Raises:
        ModelError: the model does not read sound, or there is no tokenizer for the text.
    """
    given = audio_inputs(hf, samples)
    config = getattr(hf, "config", None)
    if not getattr(config, "is_encoder_decoder", False):
        return given
    if tokenizer is None:
        raise ModelError("This model has no tokenizer to read the transcript with. Pass tokenizer= to open_model.")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not ids:
        raise ArgumentError(f"text must be the transcript of the audio, got {text!r}. Write its words.")
    untimed = tokenizer.get_vocab().get("<|notimestamps|>")  # the prompt of Whisper for text without timestamps
    return {**given, "decoder_input_ids": torch.tensor([[config.decoder_start_token_id, *([] if untimed is None else [untimed]), *ids]])}

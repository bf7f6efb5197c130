"""Speech made by espeak-ng, with the time of each word, from the library that a package brings."""

import ctypes
from functools import cache

import pytest
import torch

RATE = 16000
WORD, END = 1, 0
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "Please call me tomorrow morning before nine o clock.",
    "The weather in London is cold and rainy today.",
    "She bought three apples and a bottle of milk.",
    "My brother works in a large hospital near the river.",
    "We should leave early because the train is always late.",
    "He wrote a long letter to his old teacher.",
    "The children played football in the garden after school.",
    "I have never seen such a beautiful house before.",
    "They will open the new bridge next summer.",
]


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


@cache
def _library() -> tuple:
    loader = pytest.importorskip("espeakng_loader", reason="espeakng-loader is not installed")
    library = ctypes.CDLL(loader.get_library_path())
    rate = library.espeak_Initialize(2, 0, loader.get_data_path().encode(), 0)
    library.espeak_SetVoiceByName(b"en-us")
    return library, rate


def spoken(text: str) -> tuple[torch.Tensor, list[tuple[str, float, float]]]:
    """The sound at 16 kHz, and each word with its first and its last second."""
    library, rate = _library()
    samples: list[int] = []
    words: list[tuple[int, int, int]] = []

    def listen(wave, count, events):
        if wave:
            samples.extend(wave[:count])
        place = 0
        while events[place].type != END:
            if events[place].type == WORD:
                words.append((events[place].text_position - 1, events[place].length, events[place].audio_position))
            place += 1
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
    kept = kind(listen)
    library.espeak_SetSynthCallback(kept)
    data = text.encode()
    library.espeak_Synth(data, len(data) + 1, 0, 0, 0, 1, None, None)
    library.espeak_Synchronize()
    sound = torch.tensor(samples, dtype=torch.float32)[None, None] / 32768
    sound = torch.nn.functional.interpolate(sound, scale_factor=RATE / rate, mode="linear", align_corners=False, recompute_scale_factor=False)[0, 0]
    ends = [*(start / 1000 for _, _, start in words[1:]), len(samples) / rate]
    return sound, [(text[at : at + length], start / 1000, end) for (at, length, start), end in zip(words, ends, strict=True)]

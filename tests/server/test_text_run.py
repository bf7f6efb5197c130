"""Long texts are read without the logits of every token, and their statistics are the same."""

import numpy as np
import pytest

from headwise.server.payloads import text_run as reading
from tests.server.models import TEXT


def test_of_a_long_text_only_the_last_logits_are_made(opened, monkeypatch):
    whole, data = reading.read_text(opened["llama"], TEXT)
    monkeypatch.setattr(reading, "LONG", 8)
    monkeypatch.setattr(reading, "CHARACTERS_OF_LONG", 0)
    run, same = reading.read_text(opened["llama"], TEXT)
    assert run.outputs["logits"].shape == (1, 1, 16) and whole.outputs["logits"].shape == (1, 11, 16)
    np.testing.assert_array_equal(run.statistics.entropy.values, whole.statistics.entropy.values)
    for one, other in zip(same["output"]["top"], data["output"]["top"], strict=True):
        assert one["id"] == other["id"] and one["probability"] == pytest.approx(other["probability"], abs=1e-6)
    assert run.proof.passed


def test_an_encoder_reads_long_texts_as_they_are(opened, monkeypatch):
    monkeypatch.setattr(reading, "LONG", 8)
    monkeypatch.setattr(reading, "CHARACTERS_OF_LONG", 0)
    run, data = reading.read_text(opened["bert"], TEXT)
    assert run.outputs["last_hidden_state"].shape == (1, 11, 12) and data["output"]["kind"] == "embedding"

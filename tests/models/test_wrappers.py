"""Modules that hold a model of transformers: heads are read and proved as in the model itself."""

import pytest
import torch
from torch import nn

import headwise as hw
from headwise.errors import ModelError
from headwise.models.capture import forward_pass
from tests.models.tiny import build, ids


class Classifier(nn.Module):
    """One's own head on a language model."""

    def __init__(self):
        super().__init__()
        self.inner = build("llama")

    def forward(self, input_ids):
        return self.inner(input_ids=input_ids).logits.mean(1)


def test_a_wrapper_is_proved():
    wrapper = Classifier().eval()
    run, alone = hw.open_model(wrapper).run({"input_ids": ids()}), hw.open_model(wrapper.inner).run(ids())
    assert torch.equal(run.weights(1, 2), alone.weights(1, 2))
    assert run.proof.passed and run.proof.verdicts["model"].passed is True


def test_an_error_that_the_model_alone_does_not_raise_is_a_fault_of_headwise(monkeypatch):
    def fails(*_):
        raise KeyError("ours")

    monkeypatch.setattr(forward_pass.Recorder, "compute", fails)
    with pytest.raises(ModelError, match="headwise failed inside LlamaForCausalLM, which takes this input on its own: KeyError: 'ours'. This is a fault of"):
        hw.open_model(build("llama")).run(ids())


def test_an_error_that_the_model_raises_too_is_the_input_s():
    with pytest.raises(ModelError, match="LlamaForCausalLM must accept its input, got .*. Check names, shapes and lengths"):
        hw.open_model(build("llama")).run({"input_ids": ids(), "position_ids": torch.zeros(3, 5, dtype=torch.long)})

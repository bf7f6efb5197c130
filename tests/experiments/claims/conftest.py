"""What several tests of claims look at."""

import pytest
import torch
from transformers import LlamaForCausalLM

import headwise as hw
import tests.typechecking
from headwise.experiments.study import Study
from tests.analysis.toys import decoder, tokenizer
from tests.experiments.sample_stories import stories


@pytest.fixture(scope="session")
def untrained():
    """A model as transformers makes it, before any training, and who plays which role in it."""
    torch.manual_seed(0)
    study = Study(hw.open_model(LlamaForCausalLM(decoder().hf.config).eval(), tokenizer(False)), stories(8), length=24)
    with tests.typechecking.unchecked():
        assert set(study.roles.dims) >= {"task", "layer", "head"}
    return study

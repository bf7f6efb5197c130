"""What costs are measured in."""

import pytest
import torch

from headwise.analysis.ablation.losses import LOSSES
from headwise.experiments.measurements.negligible import COST_UNITS, NEGLIGIBLE, NEGLIGIBLE_TEXT, loss_scale
from headwise.experiments.study import Study
from tests.analysis.toys import decoder
from tests.experiments.sample_stories import stories


def test_a_loss_is_measured_against_the_models_own():
    study = Study(decoder(), stories(3), length=12)
    sums = 0.0
    for text in study.texts:
        ids = torch.tensor([study.model.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            sums += float(study.model.hf(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)
    assert loss_scale(study) == pytest.approx(sums / float(study.counts.sum()), rel=1e-5)


def test_a_distance_from_the_models_own_output_is_what_it_is():
    study = Study(decoder(), stories(3), length=12)
    study.loss = "cosine"
    assert loss_scale(study) == 1.0


def test_every_loss_has_its_words():
    assert set(NEGLIGIBLE_TEXT) == set(COST_UNITS) == set(LOSSES)
    assert NEGLIGIBLE == 0.01

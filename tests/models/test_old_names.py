"""Names of the previous release still work, each with a DeprecationWarning."""

import pytest
import torch

import headwise as hw
from tests.models.tiny import FAMILIES, build, given

WARNING = "is deprecated and will be removed in the next release. Use "


@pytest.fixture(scope="module")
def model():
    return hw.open_model(build("llama"))


def test_the_input_of_a_run_was_called_what(model):
    with pytest.warns(DeprecationWarning, match=rf"run\(what=...\) {WARNING}inputs"):
        run = model.run(what=given(FAMILIES["llama"]))
    assert torch.equal(run.weights(0, 0), model.run(given(FAMILIES["llama"])).weights(0, 0))
    with pytest.warns(DeprecationWarning, match=rf"generate\(what=...\) {WARNING}inputs"):
        model.generate(what=torch.tensor([3, 1, 4]), max_new_tokens=1)


def test_stored_calls_and_forward_passes_had_other_names(model):
    run = model.run(given(FAMILIES["llama"]))
    with pytest.warns(DeprecationWarning, match=f"Run.kept {WARNING}Run.stored_call"):
        assert torch.equal(run.kept(1).query, run.stored_call(1).query)
    with pytest.warns(DeprecationWarning, match=f"Run.session {WARNING}Run.forward_pass"):
        assert run.session is run.forward_pass

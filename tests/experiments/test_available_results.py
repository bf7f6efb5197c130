"""What can be told at once: what was measured before, and what the model plays no part in; nothing else is measured."""

import pytest

from headwise.experiments import available_results as at_hand
from headwise.experiments.available_results import AvailableResults
from headwise.experiments.card_json import card_to_json
from headwise.experiments.investigate import all_claims, investigate
from headwise.models.loading.open_model import open_model
from tests.server import models

QUICK = "equal_say"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return open_model(models.write(tmp_path_factory.mktemp("hand") / "llama", "llama"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path))


def there(model):
    return {name for name, told in AvailableResults(model).results() if told is not None}


def test_of_a_new_model_only_what_needs_none_is_at_hand(model):
    assert [name for name, _ in AvailableResults(model).results()] == list(all_claims())
    assert there(model) == {name for name, claim in all_claims().items() if not claim.about_model} >= {"more_heads"}


def test_results_of_training_that_are_not_there_leave_their_cards_out(model, monkeypatch):
    def gone(name):
        raise FileNotFoundError(name)

    monkeypatch.setattr("headwise.experiments.trained.stored_results.read", gone)
    assert not {name for name in there(model) if not all_claims()[name].about_model}


def test_what_was_measured_is_found_again_and_of_this_model_alone(model, tmp_path_factory):
    told = investigate(model, only=QUICK)[QUICK]
    found = dict(AvailableResults(model).results())[QUICK]
    assert card_to_json(found.card) == card_to_json(told.card) and found.seconds == told.seconds > 0
    other = open_model(models.write(tmp_path_factory.mktemp("other") / "llama", "llama", seed=1))
    assert QUICK not in there(other)


def test_a_model_that_reads_no_text_has_no_cards_of_its_own(monkeypatch, model):
    from headwise.errors import MissingPackage

    def missing(study):
        raise MissingPackage("English prose needs a package.")

    investigate(model, only=QUICK)
    monkeypatch.setattr(at_hand, "key_of_study", missing)
    assert QUICK not in there(model)

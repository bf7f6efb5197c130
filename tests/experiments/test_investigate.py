import json

import pytest

import headwise as hw
from headwise.errors import ArgumentError, ArgumentTypeError, WritesRefused
from headwise.experiments import investigate as home
from headwise.experiments.card import Card, Number
from headwise.experiments.claim import Claim
from headwise.experiments.claims import ORDER
from tests.analysis.toys import decoder
from tests.experiments.sample_stories import stories

KEYS = {"name", "sentence", "source", "address", "published", "definition", "refuted_by", "rule", "about_model"}
KEYS |= {"verdict", "summary", "says", "numbers", "plot", "correction", "texts", "tokens", "measure", "cited", "seconds", "model"}


def claim(run, about_model=True) -> Claim:
    return Claim("Heads are many.", "We", "https://example.org", "Nothing.", "More than one.", "One.", "Count.", run, about_model)


def counted(study):
    study.progress("counting", 1, 2)
    return Card("kept", "There are many.", {"heads": Number(float(len(study.heads)))}, texts=len(study.texts), tokens=study.token_count, measure=study.loss)


def refused(study):
    raise WritesRefused("writes of layer 0 cannot be attributed to heads: a norm.")


@pytest.fixture
def claims(monkeypatch, tmp_path):
    """Two claims of ours in the place of all; a cache of our own."""
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    calls = []

    def run(study):
        calls.append(len(study.texts))
        return counted(study)

    monkeypatch.setattr(home, "entries", lambda package: {"a_refused": claim(refused), "b_counted": claim(run)})
    return calls


def test_each_claim_has_its_card_by_place_and_by_name(claims):
    told = []
    found = hw.investigate(decoder(), stories(3), progress=lambda *what: told.append(what))
    assert [one.name for one in found] == ["a_refused", "b_counted"]
    assert len(found) == 2 and found[1] is found["b_counted"] and found[:1] == (found[0],)
    assert found["b_counted"].card.numbers["heads"].value == 18
    assert repr(found) == "ClaimResults(a_refused: inconclusive, b_counted: kept)"
    assert told == [("a_refused", 0, 100), ("b_counted", 50, 100), ("b_counted: counting", 75, 100), ("", 100, 100)]
    with pytest.raises(ArgumentError, match=r"No claim named 'c' was tested\. These were: a_refused, b_counted"):
        found["c"]


def test_what_a_model_does_not_let_us_see_ends_no_other_claim(claims):
    found = hw.investigate(decoder(), stories(3))
    assert found["a_refused"].card.verdict == "inconclusive"
    assert found["a_refused"].card.summary == "This model does not allow the measurement: writes of layer 0 cannot be attributed to heads: a norm."
    assert found["b_counted"].card.verdict == "kept"


def test_json_says_all_of_it(claims):
    found = json.loads(json.dumps(hw.investigate(decoder(), stories(3)).json()))
    assert list(found) == ["claims"]
    assert all(set(one) == KEYS for one in found["claims"])
    assert found["claims"][1]["numbers"]["heads"]["value"] == 18
    assert (found["claims"][1]["verdict"], found["claims"][1]["texts"], found["claims"][1]["measure"]) == ("kept", 3, "next")
    assert found["claims"][1]["model"] == "LlamaForCausalLM"


def test_a_card_is_made_once_for_the_same_weights_texts_and_settings(claims):
    model = decoder()
    first = hw.investigate(model, stories(3))
    again = hw.investigate(decoder(), stories(3))
    assert claims == [3]
    assert again["b_counted"].card == first["b_counted"].card
    assert again["b_counted"].seconds == first["b_counted"].seconds
    hw.investigate(model, stories(3), cache=False)
    hw.investigate(model, stories(4))
    hw.investigate(model, stories(3), seed=1)
    hw.investigate(model, stories(3), length=12)
    assert claims == [3, 3, 4, 3, 3]
    model.hf.model.norm.weight.data[0] += 1.0
    hw.investigate(model, stories(3))
    assert len(claims) == 6


def test_of_many_texts_some_are_drawn(claims):
    hw.investigate(decoder(), stories(9), limit=4)
    assert claims == [4]


def test_only_some(claims):
    assert [one.name for one in hw.investigate(decoder(), stories(3), only="b_counted")] == ["b_counted"]
    assert [one.name for one in hw.investigate(decoder(), stories(3), only=["b_counted", "a_refused"])] == ["a_refused", "b_counted"]


def test_a_wrong_call_is_refused(claims, plain):
    model = decoder()
    with pytest.raises(ArgumentError, match=r"only must be names of claims, got 'c'\. The claims are a_refused, b_counted"):
        hw.investigate(model, stories(3), only=["b_counted", "c"])
    with pytest.raises(ArgumentTypeError, match=r"only must be names of claims, got 7\. Pass a list of names"):
        hw.investigate(model, stories(3), only=7)
    with pytest.raises(ArgumentError, match="texts must hold at least one text, got an empty list"):
        hw.investigate(model, [])
    for name, value, least in (("length", 7, 8), ("limit", 0, 1), ("seed", -1, 0), ("seed", True, 0), ("limit", 2.0, 1)):
        with pytest.raises(ArgumentError, match=rf"{name} must be an integer of at least {least}, got {value!r}\. Leave it out for the default"):
            hw.investigate(model, stories(3), **{name: value})


def test_an_argument_that_is_wrong_is_not_passed_off_as_a_verdict(monkeypatch):
    def wrong(study):
        raise ArgumentError("texts must be longer, got short ones. Give others.")

    monkeypatch.setattr(home, "entries", lambda package: {"wrong": claim(wrong)})
    with pytest.raises(ArgumentError, match="texts must be longer"):
        hw.investigate(decoder(), stories(3), cache=False)


def test_all_claims_stand_in_their_order_and_say_what_they_are():
    known = home.all_claims()
    assert list(known) == [name for name in ORDER if name in known]  # a file of another name would come last
    for name, one in known.items():
        assert one.sentence.endswith((".", "?", "!")) and len(one.sentence) < 140, name
        assert one.address.startswith("https://"), name
        assert all((one.source, one.published, one.definition, one.refuted_by, one.rule)), name

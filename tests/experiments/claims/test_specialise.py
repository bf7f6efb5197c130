"""Specialties: what is summary of verdicts made by hand, and that a planted head is found where the material is there."""

import re

import pytest
import torch
import xarray

from headwise.errors import ModelError
from headwise.experiments.claims import specialise
from headwise.experiments.study import Study
from tests.analysis.toys import decoder, encoder
from tests.experiments.sample_stories import stories

pytestmark = pytest.mark.usefixtures("plain")


def cast(tasks: dict[str, tuple[float, float]], left_out: dict[str, str] | None = None) -> xarray.Dataset:
    """Tasks, "role: task", with the ends of their leads."""
    low, high = ([ends[place] for ends in tasks.values()] for place in (0, 1))
    mean = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    count = len(tasks)
    return xarray.Dataset(
        {
            "held_gain": ("task", mean),
            "held_gain_low": ("task", low),
            "held_gain_high": ("task", high),
            "held": ("task", [0.4 + x for x in mean]),
            "baseline": ("task", [0.4] * count),
            "best_layer": ("task", [1] * count),
            "best_head": ("task", [5] * count),
            "texts": ("task", [20] * count),
            "gain": (("task", "layer", "head"), [[[0.5, 0.5, x]] for x in mean]),
            "gain_low": (("task", "layer", "head"), [[[0.49, 0.1, a]] for a in low]),
            "gain_high": (("task", "layer", "head"), [[[0.51, 0.9, b]] for b in high]),
        },
        {"task": list(tasks), "of_role": ("task", [task.partition(":")[0] for task in tasks])},
        {"margin": 0.05, "left_out": left_out or {}},
    )


def judged(tasks: dict[str, tuple[float, float]], left_out: dict[str, str] | None = None):
    found = cast(tasks, left_out)
    kinds = [specialise._kind(found, name) for name in specialise.KINDS]
    return kinds, specialise._verdict([kind.found for kind in kinds])


LED, NONE, UNSURE = (0.3, 0.4), (-0.1, 0.01), (-0.1, 0.3)
ALL = ("grammar: det → head", "coreference: pronoun → mention", "same_meaning: synonyms", "long_range: beyond 32 tokens")


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ((LED, LED, LED, LED), "kept"),
        ((LED, NONE, LED, LED), "corrected"),
        ((NONE, NONE, NONE, NONE), "cut"),
        ((LED, UNSURE, LED, LED), "inconclusive"),
        ((LED, UNSURE, NONE, LED), "corrected"),
        ((NONE, UNSURE, NONE, NONE), "inconclusive"),
    ],
)
def test_the_verdict(ends, verdict):
    assert judged(dict(zip(ALL, ends, strict=True)))[1] == verdict


def test_ends_are_corrected_for_the_tasks_of_a_kind():
    alone, _ = judged({"grammar: det → head": (0.06, 0.3)})
    many, _ = judged({f"grammar: {number}": (0.06, 0.3) for number in range(20)})
    assert alone[0].found == "found"
    assert many[0].found == "unsure"
    task = many[0].tasks[0]
    assert task.lead.value == pytest.approx(0.18)
    assert task.lead.value - task.lead.low == pytest.approx(0.12 * 3.0233 / 1.95996, rel=1e-3)  # normal quantiles of 0.025 / 20 and of 0.025


def test_what_is_not_asked_says_which_file_would_help():
    kinds, verdict = judged(
        {ALL[3]: NONE}, {"grammar": "no sentences were given", "coreference": "no pronouns were given", "same_meaning": "there is no tokenizer"}
    )
    summary = specialise._summary(kinds)
    assert verdict == "inconclusive"
    assert "For grammar: not measured; pass a file of parsed sentences (--conllu)." in summary
    assert "For coreference: not measured; pass a file of resolved pronouns (--gap or --winobias)." in summary
    assert "For the same meaning: not measured; there is no tokenizer." in summary
    assert "For long-range attention: no head; head 1.5 scores" in summary


def test_what_is_found_says_head_task_and_rule():
    kinds, _ = judged({"grammar: det → head": LED, "grammar: obj → head": NONE, ALL[1]: UNSURE})
    summary = specialise._summary(kinds)
    assert "For grammar: head 1.5 scores 75 % in “det → head”, against 40 % for the best baseline; heads exceed the baseline in 1 of 2 tasks." in summary
    assert "For coreference: not certain; head 1.5 scores 50 %" in summary
    assert re.search(r"about 32[01] texts would be needed", summary)  # of 20 the half-width is 0.2, and 0.05 from the mean the bar
    assert specialise._correction(judged(dict(zip(ALL, (LED, NONE, LED, NONE), strict=True)))[0]) == (
        "For grammar and the same meaning, not for coreference and long-range attention."
    )
    numbers = specialise._numbers(kinds)
    assert numbers["grammar_tasks"].value == 1
    assert numbers["grammar_heads"].value == 2  # head 0 in both tasks, head 2 in one; of head 1 it is not certain
    assert numbers["grammar"].low > 0.05
    assert specialise._plot(kinds).reference == 0.05


def test_nothing_asked_has_no_picture():
    assert specialise._plot([specialise.Specialty("grammar", (), 0, 0.05)]) is None


def test_the_sentence_about_the_cat():
    study = Study(decoder(), stories(2), length=20)
    found = specialise._sentence(study)
    assert list(found) == ["“sat” on “cat”", "“sat” on “mat”", "“The” on “cat”", "“the” on “mat”", "“mat” on “cat”"]
    ids = study.model.tokenizer(specialise.SENTENCE)["input_ids"]  # one token a word
    run = study.model.run(torch.tensor([ids]))
    known = torch.tensor([[float(run.weights(layer, head)[2, 1]) for head in range(6)] for layer in range(3)])
    layer, head = divmod(int(known.argmax()), 6)
    assert found["“sat” on “cat”"].value == pytest.approx(float(known.max()), abs=1e-6)
    assert f"head {layer}.{head}" in found["“sat” on “cat”"].means
    assert found["“The” on “cat”"].value == 0
    assert found["“The” on “cat”"].means == "“The” cannot attend to “cat”, which comes after it"


def test_an_encoder_can_look_ahead():
    found = specialise._sentence(Study(encoder(), stories(2), length=20))
    assert found["“The” on “cat”"].value > 0
    assert "largest weight of “The” on “cat”" in found["“The” on “cat”"].means


def test_a_tokenizer_that_does_not_tell_words_apart(monkeypatch):
    def none(*args):
        raise ModelError("a tokenizer must tell where tokens stand in the text, got Slow. Load its fast version.")

    monkeypatch.setattr(specialise, "tokens_of", none)
    assert specialise._sentence(Study(decoder(), stories(2), length=20)) == {}
    monkeypatch.setattr(specialise, "tokens_of", lambda *args: ([1, 2, 3], [(0, 1), (1,), (2,), (2,), (2,)]))
    assert specialise._sentence(Study(decoder(), stories(2), length=20)) == {}


def test_a_model_that_was_never_trained_is_not_said_to_specialise(untrained):
    card = specialise.run(untrained)
    assert card.verdict in ("cut", "inconclusive")
    assert not any(name.endswith(("_tasks", "_heads")) and number.value for name, number in card.numbers.items())
    assert "pass a file of parsed sentences" in card.summary


def test_what_is_far_away_is_asked_of_texts_in_full():
    few = specialise._long_range(Study(decoder(), [*stories(7, sentences=9), *stories(2)], length=20))
    assert (few.found, few.why) == ("not measured", "8 texts of over 64 tokens are needed, got 7")
    many = specialise._long_range(Study(decoder(), stories(8, sentences=9), length=20))
    assert [task.name for task in many.tasks] == ["beyond 32 tokens"]


def test_the_whole_card_from_a_cast(monkeypatch):
    study = Study(decoder(), stories(2), length=20)
    study.roles = cast(dict(zip(ALL, (LED, NONE, LED, LED), strict=True)))
    monkeypatch.setattr(specialise, "_long_range", lambda study: specialise._kind(study.roles, "long_range"))
    card = specialise.run(study)
    assert (card.verdict, card.texts) == ("corrected", 20)
    assert card.correction.startswith("For grammar and the same meaning and long-range attention, not for")
    assert card.plot.kind == "points"

"""Heads of the demo models whose roles are known: they come out on top, and a model that was never trained has none."""

from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

import headwise as hw
from headwise.analysis.roles.aligned_pairs import read_reactions, speech
from tests.analysis.data import data
from tests.analysis.speech import SENTENCES, spoken

pytestmark = [pytest.mark.usefixtures("plain"), pytest.mark.long]
WHISPER = [(1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)]  # alignment_heads of openai/whisper-tiny.en's generation_config.json
TREEBANK = "ud_english_ewt/en_ewt-ud-dev.conllu"


@pytest.fixture(scope="module")
def smollm2():
    return hw.open_model("demo:smollm2")


def heads(found, task: str, count: int) -> list[tuple[int, int]]:
    """The heads with the highest scores."""
    score = found.score.sel(task=task).stack(place=("layer", "head"))
    return [(int(layer), int(head)) for layer, head in score.sortby(score, ascending=False).place.values[:count]]


def apart(found, task: str) -> bool:
    """Whether the head's interval lies above the baseline's, on texts that neither was chosen on."""
    here = found.sel(task=task)
    return bool(here.found) and float(here.held_low) > float(here.baseline_high)


def test_smollm2_continues_repetitions(smollm2):
    found = hw.roles(smollm2, ["induction", "first_token"], limit=12)
    task = "induction: the token behind the earlier one"
    assert apart(found, task)
    assert {(18, 6), (17, 3), (17, 4), (17, 5)} <= set(heads(found, task, 12))
    assert apart(found, "first_token: sink")
    assert float(found.held.sel(task="first_token: sink")) > 0.9


def test_smollm2_knows_what_it_is_that_was_tired(smollm2):
    run = smollm2.run("The cat sat on the mat because it was tired.", statistics=())
    words = [token.strip() for token in run.tokens[0]]
    weights = run.weights(13, 8)[words.index("it")]
    assert words[int(weights.argmax())] == "cat"
    assert float(weights.max()) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    ("name", "limit", "tasks"),
    [("minilm", 500, ("obj → head", "det → head", "nsubj → head")), ("smollm2", 500, ("obj → head", "head → det", "head → nsubj"))],
)
def test_grammar_is_known_better_than_any_offset(name, limit, tasks, smollm2):
    model = smollm2 if name == "smollm2" else hw.open_model("demo:minilm")
    found = hw.roles(model, [f"grammar:{relation}" for relation in ("obj", "det", "nsubj")], conllu=data(TREEBANK), limit=limit)
    for task in tasks:
        assert apart(found, f"grammar: {task}"), found.sel(task=f"grammar: {task}")


def test_the_head_that_maps_atoms():
    model = hw.open_model("demo:rxnmapper")
    found = hw.roles(model, "alignment", aligned=read_reactions(model, Path(__file__).with_name("reactions.smi")))
    task = "alignment: atom → the same atom before"
    assert apart(found, task)
    assert (10, 5) in heads(found, task, 6)
    assert {head for _, head in heads(found, task, 4)} == {5}  # every layer has the same weights


def test_the_heads_that_follow_speech():
    model = hw.open_model("demo:whisper")
    noise = torch.Generator().manual_seed(0)
    said = [spoken(sentence) for sentence in SENTENCES]
    noisy = [(sound + 0.05 * torch.randn(sound.shape, generator=noise), words) for sound, words in said]
    found = hw.roles(model, "alignment", aligned=[speech(model, *one) for one in noisy])
    task = "alignment: word → its sound"
    assert found.attrs["part"] == "decoder.cross"
    assert apart(found, task)
    assert set(heads(found, task, 12)) > set(WHISPER)  # of 24 heads; four that are not on the list follow this speech as well
    score = {place: float(found.score[0, place[0], place[1]]) for place in heads(found, task, 24)}
    others = [value for place, value in score.items() if place not in WHISPER]
    assert sum(score[place] for place in WHISPER) / len(WHISPER) > 1.4 * sum(others) / len(others)


def test_a_model_that_was_never_trained_plays_no_role(smollm2):
    torch.manual_seed(0)
    config = type(smollm2.hf.config)(**{**smollm2.hf.config.to_dict(), "num_hidden_layers": 6})
    blank = hw.open_model(LlamaForCausalLM(config), smollm2.tokenizer)
    found = hw.roles(blank, limit=120, conllu=data(TREEBANK))
    assert not found.found.any(), found.task[found.found].values
    assert set(found.role.values.ravel()) == {"none"}
    assert len(found.task) > 20

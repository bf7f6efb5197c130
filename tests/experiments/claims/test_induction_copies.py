"""A model built to copy has one induction head, which is found and missed; an untrained one has none."""

from random import Random

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import headwise as hw
from headwise.analysis.roles.catalog._repeats import repeats
from headwise.analysis.roles.corpus import Corpus
from headwise.errors import WritesRefused
from headwise.experiments.card import Number
from headwise.experiments.claims import induction_copies
from headwise.experiments.claims.induction_copies import ENTRY, _verdict
from headwise.experiments.measurements import copying as home
from headwise.experiments.measurements.copying import copying_effects, others
from headwise.experiments.study import Study
from headwise.experiments.trained import stored_results as results
from tests.analysis.toys import encoder, tokenizer, vocabulary
from tests.experiments.claims.planted_models import copying
from tests.experiments.sample_stories import stories

TEXTS = stories(3, 3)


@pytest.fixture(scope="module")
def study():
    return Study(copying(head=1), TEXTS)


@pytest.fixture(scope="module")
def card(study):
    return ENTRY.run(study)


def test_the_head_that_copies_is_found_and_nothing_else(study, card):
    assert card.verdict == "kept"
    assert card.numbers["heads"].value == 1
    assert card.numbers["best"].low > 0.8
    assert card.numbers["simpler"].high < 0.3
    assert max(card.plot.series[0].x) > 0.8 and sorted(card.plot.series[0].x)[-2] < 0.3
    assert (card.texts, card.measure) == (16, "next")


def test_it_writes_the_token_and_is_missed(card):
    numbers = card.numbers
    assert numbers["direct"].low > 1
    assert numbers["loss, repeated"].value < 0.5 * numbers["loss, first time"].value
    assert numbers["without them"].low > 1
    assert numbers["without others"].value == pytest.approx(0, abs=1e-5)
    assert abs(numbers["without them, first time"].value) < 0.5 * numbers["without them"].value


def test_losses_and_direct_effects_by_hand(study):
    found = copying_effects(study, [(1, 1)], 3)
    model = study.model
    for number, repeat in enumerate(repeats(model, Corpus(limit=3, seed=study.seed + 1))):
        silenced = model.edit([hw.Ablate(1, 1)])
        for column, one in ((0, model), (1, silenced)):
            with torch.no_grad():
                losses = torch.nn.functional.cross_entropy(one.hf(input_ids=repeat.given).logits[0, :-1].double(), repeat.given[0, 1:], reduction="none")
            assert float(losses[repeat.second[1:-1]].mean()) == pytest.approx(float(found.second[number, column]), abs=1e-4)
            assert float(losses[repeat.first[1:-1]].mean()) == pytest.approx(float(found.first[number, column]), abs=1e-4)
        hf, heard = model.hf, []
        handles = [
            hf.transformer.h[1].attn.c_proj.register_forward_pre_hook(lambda module, args, heard=heard: heard.append(args[0][0])),
            hf.transformer.ln_f.register_forward_pre_hook(lambda module, args, heard=heard: heard.append(args[0][0])),
        ]
        with torch.no_grad():
            hf(input_ids=repeat.given)
        for handle in handles:
            handle.remove()
        words, stream = heard
        write = words[:, 72:] @ hf.transformer.h[1].attn.c_proj.weight[72:]
        size = (stream.var(-1, correction=0, keepdim=True) + hf.transformer.ln_f.eps).sqrt()
        table = hf.transformer.wte.weight
        logits = (((write - write.mean(-1, keepdim=True)) / size) @ table.t()).detach()
        centred = logits - logits.mean(-1, keepdim=True)
        rows = repeat.second[1:-1]
        assert float(centred[rows, repeat.given[0, rows + 1]].mean()) == pytest.approx(float(found.direct[number, 1, 1]), rel=1e-3)
    assert float(found.direct[:, 0].abs().max()) < 1e-3  # the previous token is written where no token is read


def test_an_untrained_model_has_no_induction(plain):
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 72,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "max_position_embeddings": 128,
    }
    hf = LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary()), **sizes)).eval()
    card = ENTRY.run(Study(hw.open_model(hf, tokenizer(False)), TEXTS))
    assert card.verdict == "inconclusive"
    assert card.numbers["heads"].value == 0
    assert "No head certainly attends to the token after the previous occurrence" in card.summary
    assert "There is no induction head to test." in card.summary
    assert card.plot.x_label == "layer"


def test_an_encoder_foretells_nothing(monkeypatch, plain):
    true = induction_copies.roles

    def all_cast(*arguments, **options):
        cast = true(*arguments, **options)
        return cast.assign(role=(("layer", "head"), cast.role.where(cast.role != "none", "induction").values))

    monkeypatch.setattr(induction_copies, "roles", all_cast)
    card = ENTRY.run(Study(encoder(), TEXTS))
    assert card.verdict == "inconclusive"
    assert "This part of the model predicts no next token, so whether they copy it cannot be measured." in card.summary


def test_without_direct_effects_the_loss_decides(monkeypatch, study, plain):
    def refused(again):
        raise WritesRefused("direct effects on logits must be those of a map to the vocabulary that comes last, got another end (a cap on logits?).")

    monkeypatch.setattr(home, "readout", refused)
    card = ENTRY.run(study)
    assert card.verdict == "kept"
    assert "direct" not in card.numbers
    assert "Their direct effect on logits could not be measured: direct effects on logits must be" in card.summary
    assert card.plot.x_label == "layer"


def test_too_small_a_vocabulary_is_said(plain):
    sizes = {
        "hidden_size": 12,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "num_hidden_layers": 2,
        "intermediate_size": 8,
        "vocab_size": len(vocabulary()),
    }
    model = hw.open_model(LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=8)), tokenizer(False))
    study = Study(model, ["the cat saw the dog and the fox"])
    card = ENTRY.run(study)
    assert card.verdict == "inconclusive"
    assert card.summary.startswith("Repeated random text could not be run: ")


def test_the_control_is_told_of(card):
    if results.path_of("repeats").exists():
        assert card.numbers["control: fixed, other lengths"].value > card.numbers["control: random, other lengths"].value
        assert "Control: a small model trained on repeats of one length has a loss of " in card.summary
    else:
        assert "The control, models trained on repeats of one length, is not available" in card.summary


def test_a_control_that_was_not_trained_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "HOME", tmp_path)
    assert induction_copies._summary_of_control(induction_copies._control()).startswith(
        "The control, models trained on repeats of one length, is not available"
    )


def test_others_come_from_the_same_layers_as_long_as_there_are_some():
    chosen = [(1, 0), (1, 1), (2, 3)]
    for seed in range(5):
        found = others([2, 3, 4], chosen, Random(seed))
        assert len(set(found)) == 3 and not set(found) & set(chosen)
        assert (1, 2) in found and found[2][0] == 2
        assert found[1][0] == 0  # of layers as near, the first
    assert others([1, 1], [(0, 0), (1, 0)], Random(0)) == []


@pytest.mark.parametrize(
    ("difference", "direct", "verdict"),
    [
        (1.0, 1.0, "kept"),
        (1.0, None, "kept"),
        (0.0, -1.0, "cut"),
        (0.0, None, "cut"),
        (1.0, -1.0, "corrected"),
        (0.0, 1.0, "corrected"),
        (0.03, 1.0, "inconclusive"),
    ],
)
def test_the_rule(difference, direct, verdict):
    numbers = {"difference": Number(difference, low=difference - 0.01, high=difference + 0.01)}
    if direct is not None:
        numbers["direct"] = Number(direct, low=direct - 0.1, high=direct + 0.1)
    assert _verdict(numbers, 3.0)[0] == verdict

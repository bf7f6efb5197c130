"""The sweep on a toy: it really trains, it goes on after it was stopped, and what it keeps follows from the models."""

import json
from dataclasses import replace

import pytest
import torch

from headwise.experiments.bible_text import whole_text
from headwise.experiments.trained import more_heads as home
from headwise.experiments.trained import stored_results as results
from headwise.experiments.trained.character_text import character_text
from headwise.experiments.trained.more_heads import MoreHeadsSettings, at_random, decoder, held_loss, one, sweep

TOY = MoreHeadsSettings(heads=(1, 4), seeds=(0, 1), width=16, layers=2, length=16, rows=8, steps=60, rate=1e-2)
TEXT = "\n".join(whole_text().splitlines()[:60])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(home, "HELD", 64)
    monkeypatch.setattr(home, "REMOVED", 4)
    monkeypatch.setattr(home, "DRAWS", 3)
    monkeypatch.setattr(home, "ROUNDS", 1)


def test_models_of_one_seed_start_from_the_same_numbers():
    one_head, many, other = (decoder(heads, seed, TOY, 40).state_dict() for heads, seed in ((1, 5), (8, 5), (1, 6)))
    assert all(torch.equal(x, many[name]) for name, x in one_head.items())
    assert not torch.equal(one_head["lm_head.weight"], other["lm_head.weight"])


def test_it_learns_and_says_what_it_lost():
    data = character_text(TEXT)
    before = held_loss(decoder(4, 0, TOY, len(data.alphabet)), data, TOY.length)
    found = one(4, 0, TOY, data)
    assert found["loss"] < before - 0.5  # from guessing letters evenly to knowing how frequent they are, and more
    assert found["curve"][0] > found["curve"][-1]
    assert [row["share"] for row in found["removed"]] == [0.25, 0.5, 0.75]
    assert all(len(row["losses"]) == 3 for row in found["removed"])


def test_shares_that_make_no_whole_number_of_heads_are_left_out():
    assert [row["share"] for row in one(1, 0, replace(TOY, steps=1), character_text(TEXT))["removed"]] == [0.5]


def test_heads_are_removed_at_random_and_so_many():
    plans = torch.stack(at_random(5, 2, 8, 20, 0))
    assert plans.shape == (20, 2, 8) and (plans.sum((1, 2)) == 5).all()
    assert len({tuple(plan.flatten().tolist()) for plan in plans}) > 15
    assert torch.equal(plans, torch.stack(at_random(5, 2, 8, 20, 0)))


def test_without_all_heads_is_without_attention(monkeypatch):
    """Removed losses are those of the same model with the rows of its output map set to zero."""
    data = character_text(TEXT)
    model = decoder(2, 0, TOY, len(data.alphabet))
    torch.manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    monkeypatch.setattr(home, "SHARES", (0.5,))
    monkeypatch.setattr(home, "at_random", lambda count, layers, heads, draws, seed: [torch.tensor([[True, False], [False, True]])] * draws)
    (row,) = home.removed(model, 2, data, TOY, 0)
    windows = data.windows(4, TOY.length)
    base = _loss(model, windows)
    for layer, rows in ((0, slice(0, 8)), (1, slice(8, 16))):
        model.transformer.h[layer].attn.c_proj.weight.data[rows] = 0
    assert row["losses"] == pytest.approx([_loss(model, windows) - base] * 3, abs=2e-4)
    assert abs(row["losses"][0]) > 1e-3


@torch.no_grad()
def _loss(model, windows) -> float:
    return float(model(input_ids=windows, labels=windows).loss)


def test_a_sweep_that_was_stopped_goes_on(tmp_path, monkeypatch):
    toy, state, made = replace(TOY, steps=4), tmp_path / "state", []
    real = home.one

    def counted(heads, seed, *rest):
        made.append((heads, seed))
        if made == [(1, 0), (4, 0), (1, 1)]:
            raise KeyboardInterrupt
        return real(heads, seed, *rest)

    monkeypatch.setattr(home, "one", counted)
    with pytest.raises(KeyboardInterrupt):
        sweep(state, toy, TEXT)
    told = []
    found = sweep(state, toy, TEXT, progress=lambda *what: told.append(what))
    assert made == [(1, 0), (4, 0), (1, 1), (1, 1), (4, 1)]
    assert told[0] == ("1 heads, seed 1", 9, 16) and told[-1] == ("4 heads, seed 1", 16, 16)
    assert [(model["heads"], model["seed"]) for model in found["models"]] == [(1, 0), (4, 0), (1, 1), (4, 1)]
    monkeypatch.setattr(home, "one", real)
    straight = sweep(None, toy, TEXT)
    assert [model["loss"] for model in straight["models"]] == [model["loss"] for model in found["models"]]
    assert set(found["cost"]) == {"1", "4"} and found["cost"]["1"] == 1.0
    results.write(tmp_path / "out.json", found)
    assert json.loads((tmp_path / "out.json").read_text()) == json.loads(json.dumps(found))


def test_the_results_that_are_kept_are_of_the_usual_settings_and_text():
    kept, data = results.read("more_heads"), character_text(whole_text())
    assert kept["settings"] == json.loads(json.dumps(home.asdict(MoreHeadsSettings())))
    assert [(model["heads"], model["seed"]) for model in kept["models"]] == [(h, s) for s in MoreHeadsSettings().seeds for h in MoreHeadsSettings().heads]
    assert kept["letters"] == len(data.alphabet)
    assert kept["parameters"] == sum(x.numel() for x in decoder(8, 0, MoreHeadsSettings(), len(data.alphabet)).parameters())
    assert kept["command"] == home.COMMAND

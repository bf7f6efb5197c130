import json
from dataclasses import replace

import pytest
import torch

from headwise.experiments.trained import repeats as home
from headwise.experiments.trained import stored_results as results
from headwise.experiments.trained.fixed_length_control import control
from headwise.experiments.trained.repeats import RepeatsSettings, decoder, each, found, lengths, sweep, texts, train

TOY = RepeatsSettings(seeds=(0,), vocabulary=16, width=16, layers=2, heads=2, fixed=4, shortest=2, longest=6, length=13, rows=16, steps=150, rate=1e-2)


def test_a_part_comes_again_and_again_and_what_can_be_foretold_follows_it():
    part = torch.tensor([2, 3, 5])
    asked = texts(3, part, TOY, torch.Generator().manual_seed(0))
    for row, length in zip(asked.ids.tolist(), part.tolist(), strict=True):
        assert row[length:] == row[:-length] and len(set(row[:length])) == length
    assert asked.foretold[1].tolist() == [False] * 4 + [True] * 9  # the first token of the second part is known by none


def test_lengths_are_drawn_or_fixed():
    generator = torch.Generator().manual_seed(0)
    assert set(lengths("fixed", 50, TOY, generator).tolist()) == {4}
    assert set(lengths("drawn", 500, TOY, generator).tolist()) == {2, 3, 4, 5, 6}


def test_the_loss_of_each_token_is_the_models_own():
    model = decoder(0, TOY)
    asked = texts(2, torch.tensor([4, 4]), TOY, torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert float(each(model, asked).mean()) == pytest.approx(float(model(input_ids=asked.ids, labels=asked.ids).loss), abs=1e-5)


def test_it_learns_the_length_that_it_is_shown(monkeypatch):
    """A toy of one fixed length: there it foretells, at another it does not."""
    monkeypatch.setattr(home, "TESTED", 32)
    monkeypatch.setattr(home, "LENGTHS", (4, 6))
    before = found(decoder(0, TOY), TOY)[0]["loss"]
    same, other = found(train("fixed", 0, TOY), TOY)
    assert same["loss"] < 0.5 * before
    assert other["loss"] > same["loss"] + 1
    assert same["induction"] == same["fixed_way"] > other["induction"]


def test_behind_earlier_selves():
    settings = RepeatsSettings(length=10, longest=5)
    assert home._behind(4, settings).nonzero().tolist() == [[6, 3], [7, 0], [7, 4], [8, 1], [8, 5], [9, 2], [9, 6]]


def test_a_sweep_remembers_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(home, "TESTED", 8)
    monkeypatch.setattr(home, "LENGTHS", (4,))
    toy, told = replace(TOY, steps=2), []
    first = sweep(tmp_path / "state", toy, progress=lambda *what: told.append(what))
    assert told == [("drawn length, seed 0", 1, 4), ("drawn length, seed 0", 2, 4), ("fixed length, seed 0", 3, 4), ("fixed length, seed 0", 4, 4)]
    monkeypatch.setattr(home, "train", lambda *rest: pytest.fail("it is done"))
    assert sweep(tmp_path / "state", toy) == first


def test_the_results_that_are_kept_are_of_the_usual_settings_and_say_what_the_control_is_for():
    kept = results.read("repeats")
    assert kept["settings"] == json.loads(json.dumps(home.asdict(RepeatsSettings())))
    assert [(model["kind"], model["seed"]) for model in kept["models"]] == [(kind, seed) for seed in RepeatsSettings().seeds for kind in ("drawn", "fixed")]
    numbers = control()
    assert numbers["fixed, same length"].high < numbers["fixed, other lengths"].low
    assert numbers["random, other lengths"].high < numbers["fixed, other lengths"].low

import json
from dataclasses import replace

import pytest
import torch

from headwise.experiments.trained import stored_results as results
from headwise.experiments.trained import two_patterns as home
from headwise.experiments.trained.two_patterns import TwoPatternModel, TwoPatternsSettings, found, sweep, texts, train

TOY = TwoPatternsSettings(heads=(1, 2), seeds=(0,), symbols=8, letters=2, length=5, width=16, rows=64, steps=250, rate=1e-2)


def test_the_last_token_has_one_earlier_match_which_is_not_the_token_before():
    asked = texts(500, TwoPatternsSettings(), torch.Generator().manual_seed(0))
    same = asked.symbols[:, :-1] == asked.symbols[:, -1:]
    assert (same.sum(1) == 1).all() and not same[:, -1].any()
    assert torch.equal(same.int().argmax(1), asked.match)
    assert torch.equal(asked.before, asked.letters[:, -2])
    assert torch.equal(asked.matched, asked.letters[same.nonzero()[:, 0], same.nonzero()[:, 1]])
    assert all((row[:-1].bincount() <= 1).all() for row in asked.symbols)
    assert 0.05 < float((asked.before == asked.matched).double().mean()) < 0.25  # chance: the answers are independent


def test_one_head_and_two_have_as_many_parameters():
    one, two = (sum(x.numel() for x in TwoPatternModel(heads, TwoPatternsSettings()).parameters()) for heads in (1, 2))
    assert one == two


def test_two_heads_learn_a_small_task(monkeypatch):
    monkeypatch.setattr(home, "TESTED", 512)
    torch.manual_seed(0)
    before = found(TwoPatternModel(2, TOY), TOY)
    after = train(2, 0, TOY)
    assert before["both"] < 0.4
    assert after["before"] > 0.9 and after["both"] > before["both"] + 0.3
    assert after["curve"][-1] < 0.5 * after["curve"][0]
    assert len(after["weights"]) == 2 and all(0 <= x <= 1 for pair in after["weights"] for x in pair)


def test_weights_are_those_of_a_head_that_is_told_where_to_look(monkeypatch):
    """Planted: head 0 looks at the token before, by its place; head 1 at the match, by its symbol."""
    monkeypatch.setattr(home, "TESTED", 256)
    settings = TwoPatternsSettings(symbols=6, letters=3, length=5, width=32)
    model = TwoPatternModel(2, settings)
    with torch.no_grad():
        for table in (model.symbol, model.letter, model.place):
            table.weight.zero_()
        model.symbol.weight[:, :6] = torch.eye(6)
        model.place.weight[:, 8:13] = torch.eye(5)
        attention = model.attention
        for w in (attention.w_q, attention.w_k):
            w.zero_()
        attention.w_q[12, 0, 0], attention.w_k[11, 0, 0] = 20.0, 20.0  # the last place asks for the one before it
        attention.w_q[:6, 1, :6], attention.w_k[:6, 1, :6] = 20 * torch.eye(6), 20 * torch.eye(6)
        attention.w_k[12, 1, 6], attention.w_q[12, 1, 6] = -50.0, 50.0  # and not for itself
    weights = found(model, settings)["weights"]
    assert weights[0][0] == pytest.approx(1, abs=1e-3) and weights[1][1] == pytest.approx(1, abs=1e-3)
    assert weights[0][1] == pytest.approx(0, abs=1e-3) and weights[1][0] == pytest.approx(0, abs=1e-3)


def test_a_sweep_remembers_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(home, "TESTED", 64)
    toy, told = replace(TOY, steps=3), []
    first = sweep(tmp_path / "state", toy, progress=lambda *what: told.append(what))
    assert told[-1] == ("2 heads, seed 0", 6, 6) and len(told) == 6
    monkeypatch.setattr(home, "train", lambda *rest: pytest.fail("it is done"))
    assert sweep(tmp_path / "state", toy) == first
    assert first["chance"] == 0.5 and set(first["parameters"]) == {"1", "2"}


def test_the_results_that_are_kept_are_of_the_usual_settings():
    kept = results.read("two_patterns")
    assert kept["settings"] == json.loads(json.dumps(home.asdict(TwoPatternsSettings())))
    assert [(model["heads"], model["seed"]) for model in kept["models"]] == [(h, s) for s in TwoPatternsSettings().seeds for h in TwoPatternsSettings().heads]

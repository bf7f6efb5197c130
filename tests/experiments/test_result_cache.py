"""A card that was made before is found again only where nothing that it depends on has changed."""

import json
from pathlib import Path

import pytest

from headwise.errors import ModelError
from headwise.experiments.card import Card, Number
from headwise.experiments.result_cache import CACHE, ResultCache

CARD = Card("kept", "It holds.", {"share": Number(0.5, low=0.25)})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_card_is_found_again_by_all_that_it_depends_on():
    results = ResultCache({"model": "a", "seed": "0"})
    assert results.read("sink") is None
    results.write("sink", CARD, 1.5)
    assert ResultCache({"seed": "0", "model": "a"}).read("sink") == (CARD, 1.5)
    assert ResultCache({"model": "a", "seed": "1"}).read("sink") is None
    assert results.read("other") is None


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '{"card": {"verdict": "maybe"}, "seconds": 1}', '{"card": 7, "seconds": 1}'])
def test_a_damaged_file_is_measured_again(folder, text):
    results = ResultCache({"model": "a"})
    results.write("sink", CARD, 1.5)
    (path,) = (folder / "claims").iterdir()
    path.write_text(text)
    assert results.read("sink") is None
    results.write("sink", CARD, 2.5)
    assert results.read("sink") == (CARD, 2.5)


@pytest.mark.parametrize("value", [{"card": {"verdict": "maybe"}, "seconds": 1}, {"card": 7, "seconds": 1}, [], 3])
def test_a_value_that_is_no_card_is_measured_again(value):
    results = ResultCache({"model": "a"})
    CACHE.write(results._name("sink"), results.key, value)
    assert results.read("sink") is None


def test_one_digit_that_changed_on_disk_is_noticed(folder):
    results = ResultCache({"model": "a"})
    results.write("sink", CARD, 1.5)
    (path,) = (folder / "claims").iterdir()
    path.write_text(path.read_text().replace("0.25", "0.24"))
    assert results.read("sink") is None


def test_a_card_of_another_kind_or_format_is_no_card(folder):
    results = ResultCache({"model": "a"})
    results.write("sink", CARD, 1.5)
    (path,) = (folder / "claims").iterdir()
    stored = json.loads(path.read_text())
    about, *rest = json.loads(stored["content"])
    stored["content"] = json.dumps([[*about[:2], 1], *rest])
    path.write_text(json.dumps(stored))
    assert results.read("sink") is None


def test_a_cache_that_cannot_be_written_is_said(folder):
    folder.write_text("a file, no folder")
    with pytest.raises(ModelError, match=r"the cache must be writable, got .* for '.*cache/claims/sink-.*'\. Set HEADWISE_CACHE to another folder"):
        ResultCache({}).write("sink", CARD, 1.0)


def test_a_disk_that_is_full_leaves_nothing_half_written(folder, monkeypatch):
    def full(path, data):
        with path.open("wb") as file:
            file.write(data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelError, match="the cache must be writable, got No space left on device"):
        ResultCache({}).write("sink", CARD, 1.0)
    assert list((folder / "claims").iterdir()) == []

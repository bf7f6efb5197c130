"""What is made once is made whole or not at all, by one process at a time, whatever is killed."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from safetensors import SafetensorError

from headwise.errors import ModelError
from headwise.storage.cache import Cache, cache_folder

MODELS = Cache("models", format=1)
KEY = {"source": "9f"}


def made_once(name, make, key=KEY):
    return MODELS.folder(name, key, make)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_where_it_is(cache, monkeypatch):
    assert cache_folder() == cache
    monkeypatch.delenv("HEADWISE_CACHE")
    assert cache_folder().name == "headwise"


def test_made_once(cache):
    made = []

    def make(folder):
        made.append(folder)
        (folder / "weights").write_text("whole")

    first, second = made_once("thing", make), made_once("thing", make)
    assert first == second and first.is_relative_to(cache / "models")
    assert len(made) == 1
    assert (first / "weights").read_text() == "whole"


def test_many_ask_at_once_and_one_makes_it(cache):
    made = []

    def make(folder):
        made.append(1)
        time.sleep(0.1)
        (folder / "weights").write_text("whole")

    with ThreadPoolExecutor(6) as pool:
        places = list(pool.map(lambda _: made_once("thing", make), range(6)))
    assert len(set(places)) == 1
    assert len(made) == 1


def test_a_failure_leaves_nothing(cache):
    def fails(folder):
        (folder / "weights").write_text("half")
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        made_once("thing", fails)
    assert [path.suffix for path in (cache / "models").iterdir()] == [".lock"]
    assert (made_once("thing", whole) / "weights").read_text() == "whole"


def test_the_next_start_recovers_from_a_kill(cache):
    code = (
        "import pathlib, time\nfrom headwise.storage.cache import Cache\n"
        "def make(folder):\n    (folder / 'weights').write_text('half')\n    pathlib.Path(folder.parent.parent / 'begun').touch()\n    time.sleep(60)\n"
        "Cache('models', 1).folder('thing', {'source': '9f'}, make)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        deadline = time.monotonic() + 60
        while not (cache / "models" / "begun").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(list((cache / "models").glob(".thing-*.part-*"))) == 1
    assert (made_once("thing", whole) / "weights").read_text() == "whole"
    assert not list((cache / "models").glob(".thing-*.part-*"))


def test_another_key_is_another_folder(cache):
    one, other = (made_once("thing", whole, key=key) for key in (KEY, {"source": "a0"}))
    assert one != other


@pytest.mark.parametrize("damage", ["a changed byte", "a missing file", "no key", "another key", "another format"])
def test_a_damaged_folder_is_made_again(cache, damage):
    place = made_once("thing", whole)
    about = place.parent / "about.json"
    if damage == "a changed byte":
        (place / "weights").write_text("Whole")
    elif damage == "a missing file":
        (place / "weights").unlink()
    elif damage == "no key":
        about.unlink()
    elif damage == "another key":
        about.write_text(about.read_text().replace('"9f"', '"9e"'))
    else:
        about.write_text(about.read_text().replace('"about"', '"was"'))
    made = []
    assert made_once("thing", lambda folder: (made.append(1), whole(folder))) == place
    assert made == [1] and (place / "weights").read_text() == "whole"
    assert sorted(path.suffix for path in (cache / "models").iterdir()) == ["", ".lock"]


def test_what_nobody_has_used_for_long_makes_room_and_what_is_used_does_not(cache, monkeypatch):
    old, used, other = (made_once(name, whole, key={"source": key}) for name, key in (("thing", "1"), ("thing", "2"), ("another", "1")))
    for place in (old, other):
        os.utime(place.parent / "about.json", (0, 0))
    made_once("thing", whole, key={"source": "3"})
    assert [place.exists() for place in (old, used, other)] == [False, True, True]


def test_an_entry_is_read_by_its_name_and_whole_key(cache):
    results = Cache("results", format=1)
    assert results.read("sum", {"a": "1"}) is None
    results.write("sum", {"a": "1", "b": "2"}, {"value": [0.1, None]})
    assert results.read("sum", {"b": "2", "a": "1"}) == {"value": [0.1, None]}
    assert results.read("sum", {"a": "1"}) is None
    assert results.read("sum", {"a": "1", "b": "3"}) is None
    assert Cache("results", format=2).read("sum", {"a": "1", "b": "2"}) is None
    results.forget("sum")
    results.forget("sum")
    assert results.read("sum", {"a": "1", "b": "2"}) is None


def test_an_entry_of_another_kind_is_no_entry(cache):
    Cache("results", 1).write("sum", KEY, 5)
    (cache / "others").mkdir()
    (cache / "results" / "sum.json").rename(cache / "others" / "sum.json")
    assert Cache("others", 1).read("sum", KEY) is None


def whole(folder):
    (folder / "weights").write_text("whole")


def test_no_write_access(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match=r"the cache must be writable, got Not a directory for .*cache.*\. Set HEADWISE_CACHE to another folder"):
        made_once("thing", lambda folder: None)


def test_a_full_disk(cache):
    def full(folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(ModelError, match="the cache must be writable, got No space left on device"):
        made_once("thing", full)
    assert [path.suffix for path in (cache / "models").iterdir()] == [".lock"]


def test_a_full_disk_in_the_words_of_safetensors(cache):
    def full(folder):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with pytest.raises(ModelError, match="the cache must be writable, got Error while serializing: I/O error: No space left on device"):
        made_once("thing", full)
    assert [path.suffix for path in (cache / "models").iterdir()] == [".lock"]

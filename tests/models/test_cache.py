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
from headwise.storage.cache_folder import cache_folder, made_once


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
    assert first == second == cache / "thing"
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
    assert set(places) == {cache / "thing"}
    assert len(made) == 1


def test_a_failure_leaves_nothing(cache):
    def fails(folder):
        (folder / "weights").write_text("half")
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        made_once("thing", fails)
    assert [path.name for path in cache.iterdir()] == ["thing.lock"]
    made_once("thing", lambda folder: (folder / "weights").write_text("whole"))
    assert (cache / "thing" / "weights").read_text() == "whole"


def test_the_next_start_recovers_from_a_kill(cache):
    code = (
        "import pathlib, time\nfrom headwise.storage.cache_folder import made_once\n"
        "def make(folder):\n    (folder / 'weights').write_text('half')\n    pathlib.Path(folder.parent / 'begun').touch()\n    time.sleep(60)\n"
        "made_once('thing', make)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        deadline = time.monotonic() + 60
        while not (cache / "begun").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(list(cache.glob("thing.part-*"))) == 1
    assert not (cache / "thing").exists()
    made_once("thing", lambda folder: (folder / "weights").write_text("whole"))
    assert (cache / "thing" / "weights").read_text() == "whole"
    assert not list(cache.glob("thing.part-*"))


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
    assert not (cache / "thing").exists()


def test_a_full_disk_in_the_words_of_safetensors(cache):
    def full(folder):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with pytest.raises(ModelError, match="the cache must be writable, got Error while serializing: I/O error: No space left on device"):
        made_once("thing", full)
    assert not (cache / "thing").exists()

"""A real server, and Debian's chromium that looks at it.

    def test_something(page, tiny):          # page: a Playwright page; tiny: an address with token
        page.goto(tiny)

A page that says anything on the console as an error, or asks another host, fails its test.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server import models

CHROMIUM = os.environ.get("HEADWISE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 60


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    """A tiny decoder, encoder and both, of random weights."""
    folder = tmp_path_factory.mktemp("page-models")
    return {kind: models.write(folder / kind, kind) for kind in models.KINDS}


@contextmanager
def served(*words: str, cwd: Path | None = None) -> Iterator[str]:
    """`headwise serve` in a process of its own: its address, which holds the token."""
    import json

    command = [sys.executable, "-m", "headwise", "serve", *words, "--port", "0", "--no-browser", "--json"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd) as process:
        try:
            told = ""
            while not told.endswith("}\n"):
                line = process.stdout.readline()
                assert line, f"the server ended with {process.wait()}"
                told += line
            yield json.loads(told)["address"]
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="session")
def tiny(checkpoints, tmp_path_factory) -> Iterator[str]:
    """The address of a server on tiny models: llama first, then bert and t5. Checkpoints are saved in a temporary folder."""
    save = tmp_path_factory.mktemp("saved")
    with served(*(str(checkpoints[kind]) for kind in ("llama", "bert", "t5")), "--save", str(save)) as address:
        yield address


@pytest.fixture(scope="session")
def minilm() -> Iterator[str]:
    """The address of a server on MiniLM."""
    from headwise.errors import MissingPackage
    from headwise.models.loading.demo import package

    try:
        package("minilm")
    except MissingPackage as error:
        pytest.skip(str(error))
    with served("demo:minilm") as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    """Debian's chromium."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: make chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


@pytest.fixture
def page(browser):
    """A page of 1280 × 800; errors on its console and requests to other hosts fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    found = context.new_page()
    found.set_default_timeout(20_000)
    wrong: list[str] = []
    found.on("pageerror", lambda error: wrong.append(f"script error: {error}"))
    found.on("console", lambda message: wrong.append(f"console: {message.text}") if message.type == "error" and "expected" not in message.text else None)
    found.on("request", lambda request: wrong.append(f"another host: {request.url}") if not _own(request.url) else None)
    yield found
    context.close()
    assert not wrong, wrong


def _own(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:", "about:"))


def until(true, seconds: float = SECONDS):
    """Wait until a call gives something true, and give it back."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not in {seconds} s")

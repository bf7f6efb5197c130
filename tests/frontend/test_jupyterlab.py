"""The widget in a real JupyterLab: a notebook with one cell, run by hand as a user would."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwise as hw
from tests.frontend.conftest import until
from tests.server import models

pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: pip install 'headwise[dev]'")

CELL = """
import headwise as hw
run = hw.open_model({folder!r}).run({text!r})
run.show()
"""


@pytest.fixture(scope="module")
def lab(checkpoints, tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """The address of a JupyterLab in a folder that has the notebook `heads.ipynb`."""
    root = tmp_path_factory.mktemp("lab")
    cell = {"cell_type": "code", "id": "one", "metadata": {}, "execution_count": None, "outputs": []}
    source = CELL.format(folder=str(checkpoints["llama"]), text=models.TEXT).strip()
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": [{**cell, "source": source}]}
    (root / "heads.ipynb").write_text(json.dumps(notebook))
    places = {name: str(root / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    environment = {**os.environ, **places, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path), "HF_HUB_OFFLINE": "1"}
    settings = ("IdentityProvider.token=", "ServerApp.port=0", f"ServerApp.root_dir={root}", "LabApp.news_url=", "LabApp.extension_manager=readonly")
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *(f"--{one}" for one in settings)]
    command.append("--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate")
    with (root / "log").open("w") as log, subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=root) as process:
        try:
            found = until(lambda: re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)/lab", (root / "log").read_text()), 120)
            yield f"http://127.0.0.1:{found[1]}", root
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.slow
def test_a_run_is_shown_and_a_head_opened_in_jupyterlab(browser, lab, checkpoints):
    address, root = lab
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    foreign: list[str] = []
    page.on(
        "request", lambda request: None if request.url.startswith((address, "data:", "blob:", address.replace("http", "ws"))) else foreign.append(request.url)
    )
    try:
        page.goto(f"{address}/lab/tree/heads.ipynb")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=120_000)
        page.wait_for_selector(".jp-NotebookPanel-toolbar")
        page.locator(".jp-CodeCell .cm-content").first.click()
        _run_cell(page)
        cell = page.locator(".jp-OutputArea-output .headwise")
        cell.locator(".blue [data-check='model']").wait_for(timeout=120_000)
        assert cell.locator(".tokens .token").all_inner_texts() == models.TEXT.split()
        cell.locator(".focus-cell").focus()
        page.keyboard.press("Enter")
        cell.locator(".short-map rect[data-at='4,1']").hover(timeout=30_000)
        right = hw.open_model(checkpoints["llama"]).run(models.TEXT).weights(0, 0)[4, 1]
        assert float(cell.locator(".cell-value .exact").inner_text()) == pytest.approx(float(right), abs=5.1e-7)
        assert not foreign, foreign
    except Exception:
        print((root / "log").read_text()[-3000:])
        page.screenshot(path=str(root / "failed.png"))
        raise
    finally:
        context.close()


def _run_cell(page) -> None:
    """Shift and Enter, once the kernel is there; again where it was not yet."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        page.keyboard.press("Shift+Enter")
        try:
            page.locator(".jp-OutputArea-output .headwise").wait_for(timeout=30_000)
            return
        except Exception as error:
            if "Timeout" not in type(error).__name__:
                raise
            page.locator(".jp-CodeCell .cm-content").first.click()
    raise AssertionError("the cell showed nothing")

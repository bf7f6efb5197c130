"""Pictures of the page's views, from the demo models: docs/page/. `make screenshots`, about five minutes; with words, those whose names have one of them.

The cards of the claims are measured first: up to twenty minutes more, unless they are in the cache, as after `headwise claims demo:smollm2`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import headwise as hw

HERE = Path(__file__).parent
PICTURES = HERE / "page"
CHROMIUM = os.environ.get("HEADWISE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
DESK, TALL, PHONE = (1280, 800), (1280, 1120), (390, 844)
EDITS = [hw.Scale(5, 2, 0.08), hw.Scale(21, 7, 0.35), hw.Scale(11, 4, 1.7), hw.Scale(26, 0, 1.4), hw.Temperature(14, 8, 1.6), hw.Temperature(3, 1, 1.5)]
CLAIMED = "smollm2"  # the model that claims are measured on
THEMES = ("light", "dark")

# name, what stands behind the #, the size, and what is waited for
PLACES = (
    ("model", "model/13/8;model=smollm2;text=cat", DESK, ".blue [data-check=model]"),
    ("model-minilm", "model/2/3;model=minilm;text=cat", DESK, ".blue [data-check=model]"),
    ("model-share", "model/13/8;model=smollm2;text=cat;colour=write_share", DESK, ".blue [data-check=model]"),
    ("head", "head/13/8;model=smollm2;text=cat", TALL, ".dose"),
    ("head-long", "head/17/4;model=smollm2;text=long;token=300;key=122;zoom=122,298,14", TALL, ".dose"),
    ("moves", "moves;h=2", (1280, 900), ".witness td"),
    ("moves-tied", "moves;h=4;attack=tie_heads;pin=weights.1:2,1", TALL, ".witness td"),
    ("check", "check;subject=headwise:attend", (1280, 900), ".kills td"),
    ("compare", "compare;base=smollm2;tuned=tuned;text=cat", DESK, ".three[data-drawn]"),
    ("claims", f"claims;model={CLAIMED}", TALL, ".card .claim-plot svg"),
    ("model-phone", "model/2/3;model=minilm;text=cat", PHONE, ".blue [data-check=model]"),
    ("head-phone", "head/2/3;model=minilm;text=cat", PHONE, ".dose"),
)


@contextmanager
def served(*words: str) -> Iterator[str]:
    """`headwise serve` in a process of its own: its address."""
    command = [sys.executable, "-m", "headwise", "serve", *words, "--port", "0", "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            told = ""
            while not told.endswith("}\n"):
                told += process.stdout.readline()
            yield json.loads(told)["address"]
        finally:
            process.terminate()
            process.wait(20)


def wanted(name: str) -> bool:
    """Whether this picture was asked for."""
    return len(sys.argv) < 2 or any(word in name for word in sys.argv[1:])


def look(browser: Any, address: str, theme: str) -> None:
    """Every place in one theme."""
    for name, state, (width, height), last in PLACES:
        if not wanted(f"{name}-{theme}"):
            continue
        context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
        page = context.new_page()
        page.set_default_timeout(240_000)
        page.goto(f"{address}#{state};theme={theme}")
        page.wait_for_selector("[data-ready]")
        page.wait_for_selector(last)
        if name.startswith(("model", "head")):
            page.wait_for_selector(".blue .proof .mark")
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"{name}-{theme}.png")
        print(f"{name}-{theme}.png")
        context.close()


def main() -> None:
    if CHROMIUM is None:
        sys.exit("chromium must be there for pictures of the page, got none. Install it: make chromium.")
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    if any(wanted(f"claims-{theme}") for theme in THEMES):
        hw.investigate(hw.open_model(f"demo:{CLAIMED}"))
    with tempfile.TemporaryDirectory() as folder:
        tuned = Path(folder) / "tuned"
        hw.open_model("demo:smollm2").edit(EDITS).save(tuned)
        with served("demo:smollm2", "demo:minilm", "--compare", "demo:smollm2", str(tuned)) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--hide-scrollbars"])
            for theme in THEMES:
                look(browser, address, theme)
            browser.close()


if __name__ == "__main__":
    main()

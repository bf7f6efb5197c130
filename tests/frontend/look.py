"""How tests open the page, and what they look at."""

import subprocess
import time
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "src" / "headwise" / "frontend"
MODULES = STATIC / "node_modules"
VIEWS = ("model", "head", "moves", "check", "compare", "claims")


def opened(page, address: str, state: str, width: int = 1280, height: int = 800):
    """The page at an address, with a state behind its `#`, when it is there to be looked at."""
    page.set_viewport_size({"width": width, "height": height})
    page.goto("about:blank")
    page.goto(f"{address}#{state}")
    page.wait_for_selector("[data-ready]", timeout=60_000)
    settled(page, state.split("/")[0].split(";")[0])
    return page


def settled(page, view: str) -> None:
    """Wait for what a view shows last."""
    last = {
        "model": ".blue [data-check='model']",
        "head": ".blue .proof li",
        "moves": ".witness td",
        "check": ".kills td",
        "compare": ".view-head",
        "claims": ".card",
    }
    page.wait_for_selector(last[view], timeout=60_000)


def wait(page, true: str, seconds: float = 20) -> None:
    """Until a JavaScript expression is true: asked from outside, as the page's own policy forbids to evaluate strings inside.

    What asks for an element that is not there yet is not true yet.
    """
    end = time.monotonic() + seconds
    asked = f"(() => {{ try {{ return Boolean({true}) }} catch (error) {{ if (error instanceof TypeError) return false; throw error }} }})()"
    while not page.evaluate(asked):
        assert time.monotonic() < end, f"not in {seconds} s: {true}"
        page.wait_for_timeout(50)


def wide(page) -> int:
    """By how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def audited(page) -> list[str]:
    """What axe-core has to say against the page as it is now."""
    source = MODULES / "axe-core" / "axe.min.js"
    if not source.exists():
        pytest.skip("axe-core is not installed: npm ci in src/headwise/frontend")
    page.evaluate(source.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)")
    return [f"{one['id']}: {one['nodes'][0]['html'][:160]} — {one['nodes'][0].get('failureSummary', '')[:300]}" for one in found]


def node() -> None:
    """Skip where the front end cannot be built."""
    if not MODULES.exists():
        pytest.skip("the front end's tools are not installed: npm ci in src/headwise/frontend")
    try:
        subprocess.run(["node", "--version"], check=True, capture_output=True)
    except OSError:
        pytest.skip("node is not installed")

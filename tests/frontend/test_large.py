"""Many heads and long texts stay smooth: a made-up run of 32 × 32 heads, and one of 32,768 tokens, as files."""

import base64
import gzip
import json

import numpy as np
import pytest

from headwise.server.embedded.saved_page import page as whole
from headwise.server.payloads.tensor_payload import to_safetensors
from tests.frontend.look import settled

FRAME = 1 / 60


def answer(body: bytes, kind: str) -> dict:
    return {"status": 200, "type": kind, "gzip": base64.b64encode(gzip.compress(body)).decode()}


def told(found: object) -> dict:
    return answer(json.dumps(found).encode(), "application/json")


def packed(arrays: dict, **header) -> dict:
    return answer(to_safetensors(arrays, header), "application/octet-stream")


def made_up(layers: int, heads: int, tokens: int) -> dict:
    """Every answer about a run that never was."""
    draw = np.random.default_rng(0)
    names = [f"t{i}" for i in range(tokens)]
    top = int(np.ceil(np.log2(max(tokens, 2))))
    sizes = {"layers": layers, "heads": heads, "heads_of": [heads] * layers, "key_heads_of": [heads // 4] * layers, "layer_names": ["layer"] * layers}
    text = {"queries": tokens, "keys": tokens, "query_tokens": names, "key_tokens": names, "top_level": top, "recorded_level": min(top, 8)}
    part = {"name": "self", "cross": False, **sizes, **text, "writes_refused": "made up"}
    measures = [{"name": "entropy", "statement": "", "formula": "", "unit": "nats", "of": "statistics"}]
    run = {"id": "file", "model": "m", "text": "x", "milliseconds": 1, "notes": [], "parts": [part], "measures": measures, "output": {"kind": "none"}}
    model = {"id": "m", "name": "m", "state": "ready", "kind": "decoder", "layers": layers, "heads": heads, "key_heads": heads // 4, "head_width": 4}
    state = {"version": "0", "may_write": False, "limits": {}, "can": [], "models": [model], "texts": [{"id": "x", "title": "x", "text": "x"}], "compare": None}
    verdict = {"name": "model", "move": None, "sentence": "made up", "state": "passes", "residual": 1e-7, "allowed": 1e-6, "place": ""}
    side = min(24, tokens)
    mass = draw.integers(0, 255, (layers, heads, side, side)).astype(np.uint8)
    found = {
        "GET /api/state": told(state),
        "POST /api/sessions": told({"session": "file"}),
        "POST /api/runs": told(run),
        "GET /api/runs/file/grid": packed({"entropy": draw.random((layers, heads), np.float32)}),
        "GET /api/runs/file/thumbnails": packed({"mass": mass}, first=0, cell=-(-tokens // side), encoding="sqrt8"),
        "GET /api/runs/file/proof": told({"passed": True, "verdicts": [verdict], "layers": {}}),
        "GET /api/runs/file/heads/0/0": packed({"entropy": draw.random(tokens, np.float32)}),
    }
    pixels = draw.integers(0, 255, (min(tokens, 256), min(tokens, 256))).astype(np.uint8)
    return found | {f"GET /api/runs/file/tiles/0/0/{min(top, 8)}/0/0": packed({"tile": pixels}, cell=2 ** (top - min(top, 8)), encoding="sqrt8")}


def script_seconds(page, work: str) -> float:
    """How long scripts ran, as chromium counts it, while a piece of work was done."""
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")
    before = metrics(client)
    page.evaluate(work)
    after = metrics(client)
    return after["ScriptDuration"] - before["ScriptDuration"]


def metrics(client) -> dict[str, float]:
    return {one["name"]: one["value"] for one in client.send("Performance.getMetrics")["metrics"]}


PAN = """() => new Promise(done => {
    const grid = document.querySelector('.gridview');
    let step = 0;
    const frame = () => {
        grid.scrollLeft = 40 * (step % 30);
        grid.scrollTop = 11 * step;
        if (++step > 60) done(); else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
})"""


@pytest.mark.parametrize(("layers", "heads"), [(32, 32), (80, 64)])
def test_panning_many_heads_takes_less_than_a_frame(page, tmp_path, layers, heads):
    (tmp_path / "grid.html").write_text(whole("model;size=L", made_up(layers, heads, 24)))
    page.goto(f"file://{tmp_path / 'grid.html'}")
    settled(page, "model")
    grid = page.locator(".gridview")
    assert grid.evaluate("one => one.scrollWidth > one.clientWidth && one.scrollHeight > one.clientHeight")
    page.evaluate(PAN)  # once, so that everything has been compiled
    seconds = script_seconds(page, PAN) / 60
    print(f"{layers} x {heads} heads: {1000 * seconds:.1f} ms of script a frame")
    assert seconds < FRAME
    assert page.locator(".gridview canvas").evaluate("one => one.width * one.height") < 4_000_000, "a canvas as large as what is seen of it, not as all heads"


def test_32k_tokens_can_be_explored(page, tmp_path):
    (tmp_path / "long.html").write_text(whole("head/0/0", made_up(1, 4, 32_768)))
    page.goto(f"file://{tmp_path / 'long.html'}")
    page.wait_for_selector(".map-area[data-open]")
    page.wait_for_selector(".token-line")
    assert page.locator(".zoom h2").inner_text() == "Weights, 32,768 × 32,768"
    work = """() => new Promise(done => {
        const area = document.querySelector('.map-area');
        let step = 0;
        const frame = () => {
            area.dispatchEvent(new KeyboardEvent('keydown', {key: step % 2 ? '+' : 'ArrowRight', bubbles: true}));
            if (++step > 30) done(); else requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
    })"""
    page.evaluate(work)
    seconds = script_seconds(page, work) / 30
    print(f"32,768 tokens: {1000 * seconds:.1f} ms of script a frame")
    assert seconds < FRAME
    page.keyboard.press("1")
    settled(page, "model")
    assert page.locator(".tokens .token").count() <= 3000

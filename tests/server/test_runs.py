"""Routes about runs: every number that the page is given is the run's own."""

import math
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

import headwise as hw
from tests.server.models import TEXT

LONG = " ".join(["the cat sat on the mat and the dog ran"] * 60)  # 600 tokens


@pytest.fixture
def run(opened):
    return opened["llama"].run(TEXT)


def test_a_run_tells_its_tokens_heads_and_answer(page, run):
    data = page.read()
    (part,) = data["parts"]
    assert part["query_tokens"] == TEXT.split() == part["key_tokens"]
    assert (part["layers"], part["heads"], part["heads_of"], part["key_heads_of"]) == (3, 6, [6, 6, 6], [2, 2, 2])
    assert (part["queries"], part["top_level"], part["writes_refused"], part["cross"]) == (11, 4, None, False)
    assert {measure["name"] for measure in data["measures"]} >= {"entropy", "write_share"} and data["model"] == "llama"
    right = run.outputs["logits"][0, -1].double().softmax(-1)
    assert data["output"]["kind"] == "next_token" and len(data["output"]["top"]) == 8
    for one in data["output"]["top"]:
        assert one["probability"] == pytest.approx(float(right[one["id"]]), abs=1e-9)
    assert page.get(f"/api/runs/{data['id']}").json() == data


def test_the_same_text_is_the_same_run_also_for_another_session(page):
    first, session = page.read(), page.session
    page.session = page.post("/api/sessions").json()["session"]
    assert page.read()["id"] == first["id"]
    assert page.state.runs.runs[first["id"]].sessions == {session, page.session}


def test_grid_and_writes_are_means_over_tokens(page, run):
    id = page.read()["id"]
    grid = page.arrays(f"/api/runs/{id}/grid")
    assert grid["part"] == "self" and "peak" not in grid["arrays"]
    for name, found in grid["arrays"].items():
        np.testing.assert_allclose(found, run.statistics[name].mean(("batch", "query")).values, rtol=1e-6)
    writes = page.arrays(f"/api/runs/{id}/writes")["arrays"]
    assert sorted(writes) == ["write_cosine", "write_norm", "write_share"]
    np.testing.assert_allclose(writes["write_share"], run.writes["share"].mean(("batch", "query")).values, rtol=1e-6)


def test_statistics_of_every_token_of_a_head(page, run):
    found = page.arrays(f"/api/runs/{page.read()['id']}/heads/2/4")["arrays"]
    for name in ("entropy", "max_weight", "peak", "distance", "sink"):
        np.testing.assert_array_equal(found[name], run.statistics[name].sel(layer=2, head=4).values[0])
    np.testing.assert_array_equal(found["write_norm"], run.writes["norm"].sel(layer=2, head=4).values[0].astype(np.float32))
    assert found["peak"].dtype == np.int32


def test_weights_are_the_run_s_and_hidden_is_not_zero(page, run):
    id = page.read()["id"]
    found = page.arrays(f"/api/runs/{id}/weights/1/3?rows=2:9&keys=0:11")
    assert (found["rows"], found["keys"]) == ([2, 9], [0, 11])
    right = run.weights(1, 3, slice(2, 9)).numpy()
    hidden = np.triu(np.ones((11, 11), bool), 1)[2:9]
    np.testing.assert_array_equal(found["arrays"]["weights"], np.where(hidden, -1, right))


def test_thumbnails_of_a_short_text_are_its_weights(page, run):
    id = page.read()["id"]
    found = page.arrays(f"/api/runs/{id}/thumbnails?first=1&count=2")
    mass, right = found["arrays"]["mass"], torch.stack([run.weights(2, head) for head in range(6)]).numpy()
    assert (mass.shape, found["cell"], found["first"], found["encoding"]) == ((2, 6, 11, 11), 1, 1, "sqrt8")
    hidden = np.broadcast_to(np.triu(np.ones((11, 11), bool), 1), right.shape)
    assert (mass[1][hidden] == 0).all() and (mass[1][~hidden] > 0).all()
    np.testing.assert_allclose(((mass[1][~hidden].astype(float) - 1) / 253) ** 2, right[~hidden], atol=1 / 253)


def test_block_mass_of_a_long_text_adds_up_to_one(page, opened):
    id = page.read(text=LONG)["id"]
    found = page.arrays(f"/api/runs/{id}/thumbnails?size=16&count=1")
    assert (found["arrays"]["mass"].shape, found["cell"]) == ((1, 6, 16, 16), 38)
    cached = page.state.runs.runs[id]
    from headwise.server.payloads.weight_maps import block_masses

    exact = block_masses(cached.run, cached.run.places[0], 16)
    right = torch.stack([opened["llama"].run(LONG).weights(0, head) for head in range(6)])
    sums = torch.stack([torch.stack([rows.sum(2).mean(1) for rows in part.split(38, 2)], -1) for part in right.split(38, 1)], 1)
    torch.testing.assert_close(exact.clamp(min=0), sums, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(exact.clamp(min=0).sum(-1), torch.ones(6, 16), atol=1e-5, rtol=0)
    assert torch.equal(exact[0] == -1, torch.ones(16, 16).triu(1).bool())


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize(("level", "column", "row"), [(10, 1, 2), (8, 0, 0), (3, 0, 0)])
def test_a_tile_is_the_run_s_tile_in_16_bits(page, level, column, row, pool):
    id = page.read(text=LONG)["id"]
    found = page.arrays(f"/api/runs/{id}/tiles/0/5/{level}/{column}/{row}?pool={pool}")
    tile = found["arrays"]["tile"]
    right = page.state.runs.runs[id].run.tile(0, 5, level, column, row, pool).to(torch.float16).numpy()
    cell = 1 << (10 - level)
    rows, keys = (np.arange(n) * cell + start * 256 * cell for n, start in zip(right.shape, (row, column), strict=True))
    last = np.minimum(rows + cell - 1, 599)
    hidden = keys[None] > last[:, None]
    assert found["cell"] == cell
    np.testing.assert_array_equal(tile, np.where(hidden, np.float16(-1), right))


def test_a_tile_as_a_picture_has_nothing_where_nothing_is_seen(page):
    id = page.read()["id"]
    answer = page.get(f"/api/runs/{id}/tiles/0/0/4/0/0.png?ramp=dark&scale=log")
    picture = np.array(Image.open(BytesIO(answer.content)))
    assert answer.headers["content-type"] == "image/png" and picture.shape == (11, 11, 4)
    np.testing.assert_array_equal(picture[..., 3] == 0, np.triu(np.ones((11, 11), bool), 1))
    assert tuple(picture[0, 0]) == (0xED, 0xEA, 0xAD, 255)  # the first token looks at itself alone: weight 1, the end of the ramp


def test_the_proof_is_the_run_s_with_that_of_every_layer(page):
    id = page.read()["id"]
    data, run = page.get(f"/api/runs/{id}/proof").json(), page.state.runs.runs[id].run
    assert data["passed"] and data["passing"] == data["judged"] == 9
    by_name = {verdict["name"]: verdict for verdict in data["verdicts"]}
    for verdict in run.proof.verdicts.values():
        assert (by_name[verdict.name]["residual"], by_name[verdict.name]["allowed"]) == (verdict.residual, verdict.allowed)
    assert {name: verdict["move"] for name, verdict in by_name.items()} == {
        "rows": "M2", "weights": "M2", "hidden": "M2", "output": "M4", "statistics": None, "writes": "M3", "model": None, "widths": "M1", "slices": "M5",
    }  # fmt: skip
    layers = data["layers"]["self"]
    assert len(layers) == 3 and by_name["rows"]["residual"] in [layer[0]["residual"] for layer in layers]


def test_heads_that_are_tied_fail_their_move(page, opened):
    id = page.read(text="the cat sat")["id"]
    run = page.state.runs.runs[id].run
    kept = run.stored_call(1)
    kept.query[:, 1] = kept.query[:, 0]
    data = page.get(f"/api/runs/{id}/proof").json()
    assert [one["state"] for layer in data["layers"]["self"] for one in layer if one["name"] == "slices"] == ["passes", "fails", "passes"]
    assert not data["passed"] and data["passing"] == data["judged"] - 1


def test_a_row_is_certified(page, run):
    id = page.read()["id"]
    data = page.get(f"/api/runs/{id}/certificate/1/3/7").json()
    assert data["keys"] == 11 and data["query"] == 7 and 0 < data["weights"]["error"] < 1e-6 and data["weights"]["enclosed_within"] < 1e-15
    assert data["sum"]["low"] <= 1 <= data["sum"]["high"] + 1e-12
    kept = run.stored_call(1)
    right = (kept.query[0, 3, 7].double() @ kept.key[0, 1, :8].double().T * kept.call.scale).softmax(-1)
    off = (run.weights(1, 3)[7, :8] - right).abs()
    assert float(off.max()) <= data["weights"]["error"] + 1e-15
    ulps = off / torch.tensor([math.ulp(float(weight)) * 2**29 for weight in run.weights(1, 3)[7, :8]], dtype=torch.float64)
    assert data["weights"]["ulps"] == pytest.approx(float(ulps.max()), abs=1e-6) and 0 <= data["lse"]["ulps"] < 20
    assert data["lse"]["error"] <= data["lse"]["ulps"] * 2**-23 * max(1.0, 2 * abs(float(kept.lse[0, 3, 7])))


def test_an_encoder_and_its_embedding(page, opened):
    data = page.read("bert")
    run = opened["bert"].run(TEXT)
    assert data["output"]["kind"] == "embedding" and data["output"]["width"] == 12
    assert data["output"]["norm"] == pytest.approx(float(run.outputs["last_hidden_state"][0].double().mean(0).norm()), rel=1e-6)
    assert (page.arrays(f"/api/runs/{data['id']}/weights/0/0")["arrays"]["weights"] >= 0).all()


def test_every_part_of_an_encoder_and_decoder(page):
    data = page.read("t5")
    assert [part["name"] for part in data["parts"]] == ["encoder.self", "decoder.self", "decoder.cross"]
    assert [part["cross"] for part in data["parts"]] == [False, False, True]
    for part in data["parts"]:
        assert page.arrays(f"/api/runs/{data['id']}/thumbnails?part={part['name']}")["arrays"]["mass"].shape == (2, 3, 11, 11)
    assert page.get(f"/api/runs/{data['id']}/proof").json()["passed"]


def test_tokens_are_data(page):
    data = page.read(text="the <script>alert(1)</script> sat")
    assert data["parts"][0]["query_tokens"][1] == "<script>alert(1)</script>"
    assert page.client.post("/api/runs", json={"session": page.session, "model": "llama", "text": "<script>"}).headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("grid?part=other", 400, "part must be one of self, got 'other'"),
        ("heads/3/0", 404, "Part 'self' has 3 layers and no head 3.0"),
        ("weights/0/0?rows=5:3", 400, "rows must be FIRST:STOP within 0:11, got '5:3'"),
        ("weights/0/0?keys=0:99", 400, "keys must be FIRST:STOP within 0:11, got '0:99'"),
        ("thumbnails?size=3", 400, "size must be an integer in 4..64, got '3'"),
        ("thumbnails?first=2&count=2", 400, "count must be an integer in 1..1, got '2'"),
        ("tiles/0/0/9/0/0", 400, "level must be in 0..4, got 9"),
        ("tiles/0/0/4/0/0?pool=least", 400, "pool must be one of max, mean, got 'least'"),
        ("tiles/0/0/4/0/0.png?ramp=red", 400, "ramp must be one of light, dark, got 'red'"),
        ("certificate/0/0/11", 404, "query must be in 0..10, got 11"),
    ],
)
def test_what_is_not_there_is_said(page, path, status, message):
    answer = page.get(f"/api/runs/{page.read()['id']}/{path}")
    assert (answer.status_code, answer.json()["error"]["message"][: len(message)]) == (status, message)


def test_too_many_weights_at_once(page):
    part = page.read(text=" ".join(["the cat"] * 345))
    page.state.runs.runs[part["id"]].run.places  # noqa: B018
    import headwise.server.routes.runs as runs

    before, runs.MAX_CELLS = runs.MAX_CELLS, 1000
    try:
        answer = page.get(f"/api/runs/{part['id']}/weights/0/0")
    finally:
        runs.MAX_CELLS = before
    assert answer.status_code == 413 and answer.json()["error"]["kind"] == "TooLarge" and "at most 1000 weights, got 476100" in answer.text


def test_writes_that_cannot_be_told_are_refused(page):
    data = page.read(text="the dog ran")
    run = page.state.runs.runs[data["id"]].run
    refused = hw.HeadwiseError
    from headwise.errors import WritesRefused

    def refuse(part):
        raise WritesRefused("writes of self_attn cannot be attributed to heads: a norm comes between.")

    run.writes_of = refuse
    answer = page.get(f"/api/runs/{data['id']}/writes")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "WritesRefused") and issubclass(WritesRefused, refused)
    assert not any(name.startswith("write_") for name in page.arrays(f"/api/runs/{data['id']}/heads/0/0")["arrays"])


def test_a_run_that_was_dropped_is_gone(page):
    id = page.read()["id"]
    assert page.delete(f"/api/runs/{id}?session={page.session}").status_code == 204
    answer = page.get(f"/api/runs/{id}/grid")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (410, "RunGone") and "Run the text again" in answer.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text must have at least one token, got ''"),
        (" ".join(["the"] * 701), "text must fit the model's 700 positions, got 701 tokens"),
        ("x" * 400_001, "text must have at most 400000 characters, got 400001"),
    ],
)
def test_texts_that_cannot_be_read(page, text, message):
    answer = page.post("/api/runs", session=page.session, model="llama", text=text)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "ArgumentError") and answer.json()["error"]["message"].startswith(message)

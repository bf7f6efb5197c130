"""Edits: what they do is measured, and undone exactly."""

import pytest
import torch

from headwise.server.payloads.head_scale import HeadScale
from headwise.server.state.edit_history import EditHistory


def put(page, scale, layer=1, head=2, model="llama", part="self"):
    answer = page.post(f"/api/edits/{model}", session=page.session, part=part, layer=layer, head=head, scale=scale)
    assert answer.status_code == 200, answer.text
    return answer.json()


def effect(page, id):
    answer = page.get(f"/api/runs/{id}/effect?session={page.session}")
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json().items() if name != "milliseconds"}


def by_hand(model, run, layer, head, scale, width=10):
    """The probabilities with a head scaled, in float64, by scaling its columns of W_O."""
    import copy

    hf = copy.deepcopy(model.hf).double()
    block = slice(head * width, (head + 1) * width)
    hf.model.layers[layer].self_attn.o_proj.weight.data[:, block] *= scale
    with torch.no_grad():
        return hf(**run.forward_pass.inputs).logits[0, -1].softmax(-1)


def every(model, run, scale):
    """The same of every token, for head 2 of layer 1."""
    import copy

    hf = copy.deepcopy(model.hf).double()
    hf.model.layers[1].self_attn.o_proj.weight.data[:, 20:30] *= scale
    with torch.no_grad():
        return hf(**run.forward_pass.inputs).logits[0].softmax(-1)


def test_an_edit_does_what_scaling_its_block_of_w_o_does_and_undo_takes_it_back_exactly(page, opened):
    id = page.read()["id"]
    run = page.state.runs.runs[id].run
    loaded = effect(page, id)
    assert loaded["kl"] == 0 and all(one["probability"] == one["as_loaded"] for one in loaded["top"]) and loaded["others_unchanged"]
    data = put(page, 0.0)
    assert data["edits"] == [{"part": "self", "layer": 1, "head": 2, "scale": 0.0}] and (data["undo"], data["redo"]) == (1, 0)
    assert data["tensors"] == ["model.layers.1.self_attn.o_proj.weight"] and data["of_tensors"] == len(opened["llama"].hf.state_dict())
    silenced, right, before = effect(page, id), by_hand(opened["llama"], run, 1, 2, 0.0), by_hand(opened["llama"], run, 1, 2, 1.0)
    for one in silenced["top"]:
        assert one["probability"] == pytest.approx(float(right[one["id"]]), abs=1e-5)
        assert one["as_loaded"] == pytest.approx(float(before[one["id"]]), abs=1e-5)
    assert silenced["kl"] == pytest.approx(float((before * (before / right).log()).sum()), abs=1e-5) and silenced["kl"] > 1e-4
    assert silenced["others_unchanged"] is True
    before, right = (every(opened["llama"], run, scale) for scale in (1.0, 0.0))
    assert silenced["tokens"] == 11 and silenced["mean_kl"] == pytest.approx(float((before * (before / right).log()).sum(-1).mean()), abs=1e-5)
    assert page.post("/api/edits/llama/undo", session=page.session).json()["edits"] == []
    assert effect(page, id) == loaded
    assert page.post("/api/edits/llama/redo", session=page.session).json()["edits"] == data["edits"]
    assert effect(page, id) == silenced


def test_several_edits_are_measured_together(page):
    id = page.read()["id"]
    put(page, 0.0, 0, 1)
    alone = effect(page, id)
    put(page, 2.0, 2, 5)
    both = effect(page, id)
    assert len(both["edits"]) == 2 and both["kl"] != alone["kl"]
    answer = page.delete(f"/api/edits/llama?session={page.session}&part=self&layer=2&head=5")
    assert answer.json()["edits"] == alone["edits"] and effect(page, id) == alone
    assert page.delete(f"/api/edits/llama?session={page.session}").json()["edits"] == []


def test_the_same_head_again_replaces_its_edit_and_one_takes_it_away(page):
    page.read()
    put(page, 0.5)
    assert [edit["scale"] for edit in put(page, 1.5)["edits"]] == [1.5]
    data = put(page, 1.0)
    assert data["edits"] == [] and data["undo"] == 3 and data["tensors"] == []


def test_a_dose_curve_is_nine_measurements(page, opened):
    id = page.read()["id"]
    run = page.state.runs.runs[id].run
    data = page.get(f"/api/runs/{id}/dose/1/2?session={page.session}").json()
    assert data["scales"] == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2] and (data["layer"], data["head"]) == (1, 2)
    before = by_hand(opened["llama"], run, 1, 2, 1.0)
    for scale, kl in zip(data["scales"], data["kl"], strict=True):
        right = by_hand(opened["llama"], run, 1, 2, scale)
        assert kl == pytest.approx(float((before * (before / right).log()).sum()), abs=2e-5)
        for token in data["tokens"]:
            assert token["probabilities"][data["scales"].index(scale)] == pytest.approx(float(right[token["id"]]), abs=1e-5)
    put(page, 0.0, 0, 0)
    upon = page.get(f"/api/runs/{id}/dose/1/2?session={page.session}").json()
    assert upon["kl"][4] == pytest.approx(effect(page, id)["kl"], abs=1e-5) and upon["kl"][4] > 1e-4


def test_an_encoder_s_effect_is_the_cosine_of_its_embedding(page):
    id = page.read("bert")["id"]
    curve = page.get(f"/api/runs/{id}/dose/0/1?session={page.session}").json()
    assert curve["kind"] == "embedding" and curve["cosine"][4] == pytest.approx(1, abs=1e-9) and min(curve["cosine"]) < 0.9999
    put(page, 0.0, 0, 1, "bert")
    found = effect(page, id)
    assert found["cosine"] == pytest.approx(curve["cosine"][0], abs=1e-6) and found["relative"] > 0


def test_parts_are_edited_apart(page):
    id = page.read("t5")["id"]
    put(page, 0.0, 1, 2, "t5", "decoder.cross")
    assert effect(page, id)["kl"] > 1e-6
    assert put(page, 0.0, 1, 2, "t5", "decoder.self")["tensors"] == [
        "decoder.block.1.layer.0.SelfAttention.o.weight",
        "decoder.block.1.layer.1.EncDecAttention.o.weight",
    ]


def test_edits_are_the_session_s_own(page):
    page.read()
    put(page, 0.0)
    other = page.post("/api/sessions").json()["session"]
    assert page.get(f"/api/edits/llama?session={other}").json()["edits"] == []


def test_importance_is_what_silencing_each_head_does(page):
    id = page.read()["id"]
    job = page.post("/api/jobs", session=page.session, kind="importance", run=id).json()
    found = page.finished(job["id"])
    assert found["state"] == "done" and found["done"] == found["of"] == 3 and found["result"]["kind"] == "kl"
    curve = page.get(f"/api/runs/{id}/dose/2/4?session={page.session}").json()
    assert found["result"]["values"][2][4] == pytest.approx(curve["kl"][0], rel=1e-3, abs=1e-7)
    assert [len(row) for row in found["result"]["values"]] == [6, 6, 6]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"layer": 3}, "The model has no head 0 in layer 3 of part 'self'"),
        ({"head": -1}, "The model has no head -1 in layer 0 of part 'self'"),
        ({"part": "cross"}, "The model has no head 0 in layer 0 of part 'cross'"),
        ({"scale": -0.5}, "scale must be in 0..16, got -0.5"),
        ({"scale": 17}, "scale must be in 0..16, got 17"),
        ({"scale": "1"}, "scale must be a finite number, got str"),
        ({"head": True}, "head must be an integer, got bool"),
    ],
)
def test_edits_that_make_no_sense(page, body, message):
    page.read()
    answer = page.post("/api/edits/llama", **({"session": page.session, "part": "self", "layer": 0, "head": 0, "scale": 0} | body))
    assert answer.status_code == 400 and answer.json()["error"]["message"].startswith(message)


def test_edits_need_a_text_that_was_read(page):
    answer = page.post("/api/edits/llama", session=page.session, part="self", layer=0, head=0, scale=0)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (410, "RunGone") and "This session has no run of llama" in answer.text


@pytest.mark.parametrize(("way", "message"), [("undo", "There is no edit to undo"), ("redo", "There is no edit to redo")])
def test_nothing_to_undo_or_redo(page, way, message):
    answer = page.post(f"/api/edits/llama/{way}", session=page.session)
    assert answer.status_code == 400 and message in answer.text


def test_one_head_is_named_whole_or_not_at_all(page):
    answer = page.delete(f"/api/edits/llama?session={page.session}&layer=1")
    assert answer.status_code == 400 and "part, layer and head must come together" in answer.text


def test_edits_have_a_limit():
    history = EditHistory()
    for head in range(64):
        history.put(HeadScale("self", 0, head, 0.0))
    with pytest.raises(ValueError, match="There can be at most 64 edits"):
        history.put(HeadScale("self", 1, 0, 0.0))
    history.undo()
    assert len(history.edits) == 63
    history.put(HeadScale("self", 0, 1, 0.5))
    with pytest.raises(ValueError, match="There is no edit to redo"):
        history.redo()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/b", "", ".hidden", "x" * 65, "a b"])
def test_a_checkpoint_s_name_leaves_no_folder(page, name):
    page.read()
    put(page, 0.0)
    answer = page.post("/api/edits/llama/save", session=page.session, name=name)
    assert answer.status_code == 400 and answer.json()["error"]["message"].startswith("name must be letters, digits")


def test_a_checkpoint_has_an_edit(page):
    page.read()
    answer = page.post("/api/edits/llama/save", session=page.session, name="new")
    assert answer.status_code == 400 and "There are no edits to save" in answer.text

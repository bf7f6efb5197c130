"""A checkpoint of edits, saved from the page, is what transformers loads and the page showed."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from tests.server.conftest import serving
from tests.server.models import TEXT


@pytest.fixture
def own(checkpoints, tmp_path):
    """A page on a model that was opened from its files."""
    from headwise.models.loading.open_model import open_model

    model = open_model(checkpoints["llama"])
    model.name = "llama"
    with serving(models=[model], save=tmp_path / "saved") as page:
        yield page


def test_what_is_saved_says_what_the_page_showed(own, checkpoints, tmp_path):
    id = own.read()["id"]
    for layer, head, scale in ((1, 2, 0.0), (0, 5, 1.5)):
        assert own.post("/api/edits/llama", session=own.session, part="self", layer=layer, head=head, scale=scale).status_code == 200
    shown = own.get(f"/api/runs/{id}/effect?session={own.session}").json()
    answer = own.post("/api/edits/llama/save", session=own.session, name="edited")
    assert answer.status_code == 201, answer.text
    data, folder = answer.json(), tmp_path / "saved" / "edited"
    assert data["path"] == str(folder) and data["bytes"] > 0
    assert data["changed"] == ["model.layers.0.self_attn.o_proj.weight", "model.layers.1.self_attn.o_proj.weight"]
    before, after = load_file(checkpoints["llama"] / "model.safetensors"), load_file(folder / "model.safetensors")
    assert [name for name in before if not torch.equal(before[name], after[name])] == sorted(data["changed"]) and data["of_tensors"] == len(before)
    ids = own.state.runs.runs[id].run.forward_pass.inputs["input_ids"]
    with torch.no_grad():
        shares = AutoModelForCausalLM.from_pretrained(folder)(ids).logits[0, -1].double().softmax(-1)
    for one in shown["top"]:
        assert one["probability"] == pytest.approx(float(shares[one["id"]]), abs=1e-6)
    assert json.loads((folder / "headwise.json").read_text())
    models = own.get("/api/state").json()["models"]
    assert [(one["id"], one["state"], one["base"]) for one in models] == [("llama", "ready", None), ("edited", "waiting", "llama")]
    assert data["model"] == "edited"
    again = own.post("/api/edits/llama/save", session=own.session, name="edited")
    assert again.status_code == 400 and again.json()["error"]["message"].startswith("There is already a checkpoint named 'edited'")


def test_a_tensor_that_goes_by_two_names_counts_once(tmp_path):
    """As the checkpoint's file has it, so that the page says one number before it saves and after."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from headwise.models.loading.open_model import open_model
    from headwise.server.state.model_library import count_tensors

    sizes = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 8, "num_hidden_layers": 2, "vocab_size": 20}
    tied, loose = (LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=tie)) for tie in (True, False))
    tied.save_pretrained(tmp_path)
    assert count_tensors(tied) == len(load_file(tmp_path / "model.safetensors")) == len(tied.state_dict()) - 1
    assert count_tensors(loose) == len(loose.state_dict()) and count_tensors(open_model(tmp_path).hf) == count_tensors(tied)


def test_a_folder_that_cannot_be_written_is_said(own, tmp_path):
    (tmp_path / "saved").write_text("a file")
    own.read(text=TEXT)
    own.post("/api/edits/llama", session=own.session, part="self", layer=0, head=0, scale=0)
    answer = own.post("/api/edits/llama/save", session=own.session, name="edited")
    assert answer.status_code == 400 and "Cannot write checkpoints to" in answer.text

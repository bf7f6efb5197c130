"""What is saved is what was edited: plain transformers loads it, every other byte is the source's, and nothing is half written."""

import errno
import hashlib
import json
import os
import shutil
from collections import namedtuple

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM

import headwise as hw
from headwise.errors import ArgumentError, CheckpointError, ModelError
from headwise.interventions.edit_list import read_edits, write_edits
from headwise.interventions.safetensors_shard import shard_of
from headwise.storage import atomic_folder as whole
from headwise.storage import staging
from headwise.storage.source_files import Origin
from tests.interventions.test_edits import final
from tests.models.tiny import build, ids

TOKENS = ids(1, 9)
EDITS = [hw.Ablate(1, 2), hw.Scale(0, 1, 1.5), hw.Temperature(2, 3, 2.0)]
pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture
def source(tmp_path):
    """A checkpoint in several shards, in bfloat16, with files besides."""
    folder = tmp_path / "source"
    build("llama").to(torch.bfloat16).save_pretrained(folder, max_shard_size="6KB")
    (folder / "README.md").write_text("a model\n")
    (folder / "extra").mkdir()
    (folder / "extra" / "notes.txt").write_text("kept\n")
    (folder / "pytorch_model.bin").write_bytes(b"the same weights in a pickle")
    return folder


def tensors(folder):
    found = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return found


def state(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_saved_model_loads_in_plain_transformers_and_says_the_same(source, tmp_path):
    before = state(source)
    edited = hw.open_model(source, dtype="float32").edit(EDITS)
    saved = edited.save(tmp_path / "edited")
    assert state(source) == before
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "edited", dtype=torch.float32).eval()
    with torch.no_grad():
        torch.testing.assert_close(loaded(TOKENS).logits, final(edited), rtol=0.02, atol=0.05)  # edits are rounded to bfloat16, as they are stored
    assert set(saved.changed) == {f"model.layers.{name}.weight" for name in ("1.self_attn.o_proj", "0.self_attn.o_proj", "2.self_attn.q_proj")}


def test_what_no_edit_touches_is_the_source_s_byte_for_byte(source, tmp_path):
    saved = hw.open_model(source).edit(EDITS).save(tmp_path / "edited")
    old, new = state(source), state(tmp_path / "edited")
    assert set(new) == set(old) - {"pytorch_model.bin"} | {"headwise.json"}
    assert saved.left_out == ("pytorch_model.bin",)
    shards = {name for name in old if name.endswith(".safetensors")}
    assert len(shards) > 3
    assert [name for name in set(old) - shards - {"pytorch_model.bin"} if old[name] != new[name]] == []
    assert 0 < sum(old[name] != new[name] for name in shards) <= 3
    for name in shards:
        assert shard_of(source / name).tensors == shard_of(tmp_path / "edited" / name).tensors
    one, two = tensors(source), tensors(tmp_path / "edited")
    assert {name for name in one if not torch.equal(one[name], two[name])} == set(saved.changed)
    assert len(saved.kept) == len(one) - 3 and repr(saved).endswith("3 tensors changed, 27 kept)")


def test_the_record_says_what_was_done_on_which_bytes(source, tmp_path):
    hw.open_model(source).edit(EDITS).save(tmp_path / "edited")
    record = json.loads((tmp_path / "edited" / "headwise.json").read_text())
    assert record["headwise"] == hw.__version__ and record["source"] == str(source)
    assert record["edits"][1] == {"edit": "scale", "layer": 0, "head": 1, "factor": 1.5}
    for name, listed in record["files"].items():
        assert hashlib.sha256((tmp_path / "edited" / name).read_bytes()).hexdigest() == listed
    assert record["source_files"]["config.json"] == record["files"]["config.json"]
    for name, x in tensors(tmp_path / "edited").items():
        assert hashlib.sha256(x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest() == record["tensors"][name]["sha256"]
    assert sum("was" in listed for listed in record["tensors"].values()) == 3
    assert read_edits(tmp_path / "edited" / "headwise.json") == EDITS


def test_an_edited_checkpoint_edited_again_remembers_both(source, tmp_path):
    hw.open_model(source).edit(EDITS[:1]).save(tmp_path / "once")
    hw.open_model(tmp_path / "once").edit(EDITS[1:]).save(tmp_path / "twice")
    assert json.loads((tmp_path / "twice" / "headwise.json").read_text())["earlier"]["edits"][0]["edit"] == "ablate"
    hw.open_model(source).edit(EDITS).save(tmp_path / "both")
    one, two = tensors(tmp_path / "twice"), tensors(tmp_path / "both")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_model_that_came_from_no_files_is_saved_whole(tmp_path):
    edited = hw.open_model(build("gpt2")).edit([hw.Ablate(1, 2), hw.Temperature(0, 1, 2.0)])
    saved = edited.save(tmp_path / "edited")
    assert set(saved.changed) == {"transformer.h.1.attn.c_proj.weight", "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias"}
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "edited").eval()
    with torch.no_grad():
        assert torch.equal(loaded(TOKENS).logits, edited.hf(TOKENS).logits)


def test_edits_made_at_run_time_are_saved_in_the_weights_or_refused(source, tmp_path):
    hw.open_model(source).edit(EDITS, mode="run").save(tmp_path / "run")
    hw.open_model(source).edit(EDITS, mode="weights").save(tmp_path / "weights")
    one, two = tensors(tmp_path / "run"), tensors(tmp_path / "weights")
    assert all(torch.equal(one[name], two[name]) for name in one)
    message = r"MaskKeys\(.*\) cannot be saved: no weight determines which keys a head may attend to. Save the list"
    with pytest.raises(ModelError, match=message):
        hw.open_model(source).edit(hw.MaskKeys(1, 2, keys=[0])).save(tmp_path / "blind")
    layer = hw.open_model(nn.TransformerEncoderLayer(24, 6, 20, batch_first=True).eval()).edit(hw.Ablate(0, 1), inputs={"src": torch.randn(1, 7, 24)})
    with pytest.raises(ModelError, match=r"a model must be one of transformers to be saved as a checkpoint, got TransformerEncoderLayer."):
        layer.save(tmp_path / "layer")
    assert not (tmp_path / "blind").exists() and not (tmp_path / "layer").exists()


def test_the_source_is_never_overwritten_unless_told(source):
    edited = hw.open_model(source).edit(EDITS)
    before = state(source)
    with pytest.raises(ArgumentError, match=r"the folder to save to must be new or empty, got .*source'. Choose another, or say overwrite=True."):
        edited.save(source)
    assert state(source) == before
    saved = edited.save(source, overwrite=True)
    assert tensors(source)[saved.changed[0]].shape and "headwise.json" in state(source)
    assert [path.name for path in source.parent.iterdir()] == ["source"]
    with pytest.raises(CheckpointError, match=r"a checkpoint must be as it was when it was opened, got changes in README.md, config.json, .* Open it again."):
        edited.save(source, overwrite=True)


def test_only_a_checkpoint_is_overwritten(source, tmp_path):
    edited = hw.open_model(source).edit(EDITS)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(ArgumentError, match=r"what is overwritten must be a checkpoint, got .*home' without config.json."):
        edited.save(tmp_path / "home", overwrite=True)
    with pytest.raises(ArgumentError, match=r"a folder is needed to save to, and '.*letter.txt' is a file. Choose another name."):
        edited.save(tmp_path / "home" / "letter.txt", overwrite=True)
    (tmp_path / "empty").mkdir()
    assert edited.save(tmp_path / "empty").changed


def test_a_checkpoint_that_changed_on_disk_is_refused(source, tmp_path):
    edited = hw.open_model(source).edit(EDITS)
    (source / "config.json").write_text((source / "config.json").read_text() + "\n")
    with pytest.raises(CheckpointError, match=r"as it was when it was opened, got changes in config.json of .*source'. Open it again."):
        edited.save(tmp_path / "edited")
    assert not (tmp_path / "edited").exists()


def test_numbers_that_changed_under_the_same_date_are_refused_too(source, tmp_path, monkeypatch):
    edited = hw.open_model(source, dtype="float32").edit(EDITS)
    path = next(path for path in source.glob("*.safetensors") if "model.norm.weight" in dict.fromkeys(x.name for x in shard_of(path).tensors))
    stamp, content = path.stat(), bytearray(path.read_bytes())
    content[-1] ^= 1
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(CheckpointError, match=r"as it was when it was opened, got changes in model-.*safetensors of .*source'. Open it again."):
        edited.save(tmp_path / "edited")
    monkeypatch.setattr(Origin, "changed", lambda self: [])  # on a file system that keeps no such times the numbers themselves tell
    with pytest.raises(CheckpointError, match=r"the files must hold the weights of the model that was edited, got other numbers for .* open it again"):
        edited.save(tmp_path / "edited")


def test_a_model_trained_since_is_refused(source, tmp_path):
    model = hw.open_model(source)
    with torch.no_grad():
        model.hf.model.layers[1].self_attn.o_proj.weight.add_(1)
    message = r"an edited parameter must be stored as it is used, got model.layers.1.self_attn.o_proj.weight, which no tensor of 'source' equals"
    with pytest.raises(ModelError, match=message):
        model.edit(hw.Ablate(1, 2)).save(tmp_path / "edited")


def test_factors_too_large_for_the_stored_dtype_are_refused(tmp_path):
    build("llama").half().save_pretrained(tmp_path / "half")
    edited = hw.open_model(tmp_path / "half", dtype="float32").edit(hw.Scale(1, 2, 1e6))
    with pytest.raises(ModelError, match=r"edits must leave numbers, got infinity or NaN in .*o_proj.weight as it is stored, torch.float16"):
        edited.save(tmp_path / "edited")


def test_no_room_on_the_disk_leaves_the_old_state(source, tmp_path, monkeypatch):
    edited = hw.open_model(source).edit(EDITS)
    before = state(tmp_path)
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(100, 99, 1))
        with pytest.raises(ModelError, match=r"the disk must have room for 0 MB, got a full one at .* Nothing was changed; make room."):
            edited.save(tmp_path / "edited")
    with monkeypatch.context() as patch:

        def full(handle):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(os, "fsync", full)
        with pytest.raises(ModelError, match=r"the disk must have room .* Nothing was changed; make room."):
            edited.save(source, overwrite=True)
    assert state(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_places_that_cannot_be_written_or_exchanged_are_refused(source, tmp_path, monkeypatch):
    edited = hw.open_model(source).edit(EDITS)
    before = state(source)
    with monkeypatch.context() as patch:
        patch.setattr(whole.sys, "platform", "elsewhere")
        with pytest.raises(ModelError, match=r"the folder to save to must be writable, got this system cannot exchange two folders in one step for .*source'"):
            edited.save(source, overwrite=True)
    with monkeypatch.context() as patch:
        patch.setattr(whole, "EXCHANGE", 1 << 20)  # a flag that no file system knows
        with pytest.raises(ModelError, match=r"got this file system cannot exchange two folders in one step for .*source'. Nothing was changed"):
            edited.save(source, overwrite=True)
    with pytest.raises(ModelError, match=r"the folder to save to must be writable, got (Not a directory|File exists) for .*"):
        edited.save(source / "config.json" / "inside")
    assert state(source) == before


def test_what_does_not_read_back_is_not_saved(source, tmp_path, monkeypatch):
    from headwise.interventions import save as saving

    edited = hw.open_model(source).edit(EDITS)
    honest = saving.write_shard
    monkeypatch.setattr(saving, "write_shard", lambda shard, replaced, file: honest(shard, {name: x * 0 for name, x in replaced.items()}, file))
    with pytest.raises(ModelError, match=r"what is saved must read as it was written, got other numbers for .* Nothing was changed; is the disk sound?"):
        edited.save(tmp_path / "edited")
    assert not (tmp_path / "edited").exists()


def test_a_folder_left_by_a_killed_attempt_is_cleared_away_and_one_at_work_or_of_somebody_else_is_not(source, tmp_path):
    def attempt(name, number=None):
        path = tmp_path / name
        path.mkdir()
        found = path.rename(tmp_path / f".edited.part-{number or path.stat().st_ino}-{name}")
        (found / "weights").write_text("half")
        return found

    left, busy, foreign = attempt("left"), attempt("busy"), attempt("foreign", number=7)
    lock = staging._locked(busy)
    hw.open_model(source).edit(EDITS).save(tmp_path / "edited")
    staging._unlock(lock)
    assert not left.exists() and busy.exists()
    assert (foreign / "weights").read_text() == "half", "its number is another's: somebody gave it this name"


def test_parameters_are_found_under_other_names_by_their_numbers(tmp_path):
    """Files of a base model without the prefix that the full model has, and one name that nothing foretells."""
    build("llama").save_pretrained(tmp_path / "source")
    model = hw.open_model(tmp_path / "source")
    path = tmp_path / "source" / "model.safetensors"
    found = {name.removeprefix("model."): x for name, x in tensors(tmp_path / "source").items()}
    found["strange"] = found.pop("layers.1.self_attn.o_proj.weight")
    from headwise.interventions.tensor_names import stored_names

    save_file(found, path, metadata={"format": "pt"})
    wanted = ["model.layers.0.self_attn.o_proj.weight", "model.layers.1.self_attn.o_proj.weight"]
    assert stored_names(model.hf, wanted, [shard_of(path)]) == {wanted[0]: "layers.0.self_attn.o_proj.weight", wanted[1]: "strange"}


def test_a_list_of_edits_is_a_small_file(tmp_path):
    edits = [
        hw.Ablate(1, 2),
        hw.MaskKeys(0, 1, keys=[3, 0]),
        hw.TieHeads(2, part="decoder.self"),
        hw.Prune(0, 0),
        hw.Temperature(1, 1, 0.5),
        hw.Scale(0, 2, -1.0),
    ]
    write_edits(edits, tmp_path / "edits.json", "a model")
    assert read_edits(tmp_path / "edits.json") == edits
    assert (tmp_path / "edits.json").stat().st_size < 1000


def test_a_list_with_the_kinds_of_earlier_releases_is_read(tmp_path):
    old = [
        {"edit": "silence", "layer": 1, "head": 2},
        {"edit": "blind", "layer": 0, "head": 1, "keys": [0, 3]},
        {"edit": "tie", "layer": 2, "part": "decoder.self"},
        {"edit": "temper", "layer": 1, "head": 1, "temperature": 0.5},
    ]
    (tmp_path / "old.json").write_text(json.dumps({"headwise": "0.1.0", "edits": old}))
    edits = [hw.Ablate(1, 2), hw.MaskKeys(0, 1, keys=[0, 3]), hw.TieHeads(2, part="decoder.self"), hw.Temperature(1, 1, 0.5)]
    assert read_edits(tmp_path / "old.json") == edits
    write_edits(edits, tmp_path / "new.json")
    assert [one["edit"] for one in json.loads((tmp_path / "new.json").read_text())["edits"]] == ["ablate", "mask_keys", "tie_heads", "temperature"]


BROKEN = {
    "no JSON": ("{", r"Cannot read edits from .*: it is not JSON. Check the path."),
    "nothing": ("{}", r"lists no edits under 'edits'. Write such a file"),
    "unknown": ('{"edits": [{"edit": "flip"}]}', r"edit 0 of .* must be one of ablate, mask_keys, prune, scale, temperature, tie_heads, got 'flip'"),
    "numbers": ('{"edits": [{"edit": "scale", "layer": 1}]}', r"edit 0 of .* has wrong arguments, got .*: .*missing"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_list_is_refused(case, tmp_path):
    text, message = BROKEN[case]
    (tmp_path / "edits.json").write_text(text)
    with pytest.raises(ArgumentError, match=message):
        read_edits(tmp_path / "edits.json")
    with pytest.raises(ArgumentError, match=r"Cannot read edits from .*: No such file or directory"):
        read_edits(tmp_path / "none.json")

"""A save deletes nothing that headwise did not write: random folders at its place, and folders inside the source."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import headwise as hw
from headwise.errors import ArgumentError
from headwise.interventions.checkpoint_contents import READ_BY_NAME, is_read_by_name
from tests.models.tiny import build
from tests.storage.test_atomic_folder import state

EDIT = hw.Ablate(1, 2)
NAMES = (
    *("thesis.tex", "optimizer.pt", "training_args.bin", "pytorch_model.bin", "README.md", "notes.txt", "headwise.json.bak", ".git/HEAD"),
    *("checkpoint-500/model.safetensors", "checkpoint-500/config.json", "checkpoint-500/optimizer.pt", "extra/notes.txt", "extra/own.txt", "runs/a/b"),
    *("tokenizer.json", "model-00001-of-00002.safetensors", "adapter_config.json", "model.safetensors.index.json"),
)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("others") / "source"
    build("llama").save_pretrained(folder)
    (folder / "README.md").write_text("a model\n")
    (folder / "extra").mkdir()
    (folder / "extra" / "notes.txt").write_text("of the model\n")
    return folder


@pytest.fixture(scope="module")
def edited(source):
    return hw.open_model(source).edit(EDIT)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["saved before", "saved before, then changed", "of somebody"]),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from([b"years of work", b"a model\n", b"of the model\n"]), max_size=5),
    st.booleans(),
)
def test_every_file_of_somebody_else_is_byte_identical_after_an_overwrite_or_nothing_is_written(source, edited, start, others, link):
    with tempfile.TemporaryDirectory() as base:
        place = Path(base) / "place"
        if start == "of somebody":
            shutil.copytree(source, place)
        else:
            edited.save(place)
        if start == "saved before, then changed":
            (place / "README.md").write_text("my own words\n")
        written = state(place) if start == "saved before" else {}
        for name, content in others.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        if link:
            (place / "linked").symlink_to("/etc")
        before = state(place)
        replaceable = {name for name in before if name == "headwise.json" or (is_read_by_name(name) and name in state(source))}
        own = replaceable | {name for name, content in before.items() if written.get(name) == content}
        try:
            saved = edited.save(place, overwrite=True)
        except ArgumentError as error:
            assert state(place) == before
            assert any(name in str(error) for name in before if name not in own), error
        else:
            after = state(place)
            assert {name for name in before if name not in own and after.get(name) != before[name]} == set()
            assert set(saved.others) == set(after) - {*saved.record["files"], "headwise.json"}
            assert not [name for name in saved.others if is_read_by_name(name)]
            hw.open_model(place)
        assert os.listdir(base) == ["place"]


def test_an_original_that_was_there_before_stays_its_owner_s_through_later_saves(source, edited, tmp_path):
    """README.md at the place is the same as the source's: the save does not make it ours, and a later save of another model must not take it away."""
    place, other = tmp_path / "place", tmp_path / "other"
    shutil.copytree(source, place)
    node = (place / "README.md").stat().st_ino
    record = edited.save(place, overwrite=True).record
    assert "README.md" in record["files"] and "README.md" not in record["written"] and (place / "README.md").stat().st_ino == node
    build("llama", 5).save_pretrained(other)
    hw.open_model(other).edit(EDIT).save(place, overwrite=True)
    assert (place / "README.md").read_text() == "a model\n" and (place / "extra" / "notes.txt").exists()


def test_what_a_save_wrote_goes_with_the_next_one(source, edited, tmp_path):
    other = tmp_path / "other"
    build("llama", 5).save_pretrained(other)
    edited.save(tmp_path / "place")
    saved = hw.open_model(other).edit(EDIT).save(tmp_path / "place", overwrite=True)
    assert not (tmp_path / "place" / "README.md").exists() and not (tmp_path / "place" / "extra").exists() and saved.others == ()


def test_shards_that_a_save_wrote_make_room_for_fewer_and_those_of_somebody_stop_it(tmp_path, source, edited):
    sharded = tmp_path / "sharded"
    build("llama").save_pretrained(sharded, max_shard_size="6KB")
    hw.open_model(sharded).edit(EDIT).save(tmp_path / "place")
    edited.save(tmp_path / "place", overwrite=True)
    assert [path.name for path in sorted((tmp_path / "place").glob("model*"))] == ["model.safetensors"]
    with pytest.raises(ArgumentError, match=r"'.*sharded' holds model-00001-of-.* more, which headwise did not write and which would be read together"):
        edited.save(sharded, overwrite=True)


def test_a_record_of_an_earlier_version_counts_for_what_transformers_reads_only(source, edited, tmp_path):
    place = tmp_path / "place"
    edited.save(place)
    record = json.loads((place / "headwise.json").read_text())
    del record["written"]
    (place / "headwise.json").write_text(json.dumps(record))
    (place / "README.md").write_text("a model\n")
    other = tmp_path / "other"
    build("llama", 5).save_pretrained(other)
    saved = hw.open_model(other).edit(EDIT).save(place, overwrite=True)
    assert (place / "README.md").read_text() == "a model\n" and "README.md" in saved.others


def test_a_headwise_json_of_somebody_else_is_not_replaced(source, edited, tmp_path):
    shutil.copytree(source, tmp_path / "place")
    (tmp_path / "place" / "headwise.json").write_text('{"my own": "settings"}')
    with pytest.raises(ArgumentError, match=r"would replace headwise.json, which headwise did not write"):
        edited.save(tmp_path / "place", overwrite=True)


def test_folders_inside_the_source_are_copied_whole_or_left_out_whole_and_named(source, tmp_path):
    folder = tmp_path / "whole"
    shutil.copytree(source, folder)
    for name, files in {
        "1_Pooling": ("config.json",),
        "2_Dense": ("config.json", "model.safetensors"),
        "3_Dense": ("config.json", "pytorch_model.bin"),
        "checkpoint-500": ("config.json", "model.safetensors", "optimizer.pt"),
        "onnx": ("model.onnx", "notes.txt"),
        ".git": ("HEAD",),
        "plots": ("loss.png",),
    }.items():
        (folder / name).mkdir()
        for file in files:
            save_file({"linear.weight": torch.ones(2)}, folder / name / file) if file.endswith("safetensors") else (folder / name / file).write_text(name)
    (folder / "modules.json").write_text(json.dumps([{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}, {"path": "3_Dense"}]))
    (folder / "consolidated.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    (folder / "linked").symlink_to(tmp_path)
    saved = hw.open_model(folder).edit(EDIT).save(tmp_path / "edited")
    found, right = state(tmp_path / "edited"), state(folder)
    assert {name.partition("/")[0] for name in found if "/" in name} == {"1_Pooling", "2_Dense", "3_Dense", "plots", "extra"}
    assert all(found[name] == right[name] for name in found if "/" in name)
    assert dict(saved.record["left_out"]) == {
        "consolidated.safetensors": "weights that transformers does not read",
        "checkpoint-500/": "holds weights that are not part of this model",
        "onnx/": "holds weights that are not part of this model",
        ".git/": "a hidden folder",
        "linked": "a link to a folder",
    }
    assert set(saved.left_out) == set(saved.record["left_out"])


def test_what_transformers_reads_by_name_is_what_a_tokenizer_and_a_model_write(tmp_path):
    from tests.analysis.toys import tokenizer

    build("llama").save_pretrained(tmp_path, max_shard_size="6KB")
    tokenizer(True).save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if not is_read_by_name(path.name)] == [] and READ_BY_NAME

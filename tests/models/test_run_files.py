"""A run on disk says what the run says, is never half written, and a damaged one is said in one line."""

import json
import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import BitNetConfig, BitNetForCausalLM

import headwise as hw
from headwise.errors import ArgumentError, CheckpointError, ModelError, WritesRefused
from headwise.models.offline import run_files as saving
from headwise.models.offline.run_files import IntervalMask
from headwise.storage import atomic_folder
from tests.models.tiny import FAMILIES, GROUPED, build, drawn, given


@pytest.mark.parametrize("padding", [None, "left"])
@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "t5", "modernbert"])
def test_a_saved_run_says_the_same(name, padding, tmp_path):
    run = hw.open_model(build(name)).run(given(FAMILIES[name], padding=padding))
    run.save(tmp_path / "run")
    found = hw.load_run(tmp_path / "run")
    assert list(found.parts) == list(run.parts)
    assert found.tokens == run.tokens
    assert found.notes == run.notes
    for part, right in run.parts.items():
        assert found.parts[part].identical(right)
        assert found.writes_of(part).identical(run.writes_of(part))
        for batch in (0, 1):
            assert torch.equal(found.weights(1, 3, batch=batch, part=part).nan_to_num(), run.weights(1, 3, batch=batch, part=part).nan_to_num())
            assert torch.equal(found.tile(1, 3, 2, 0, 0, batch=batch, part=part), run.tile(1, 3, 2, 0, 0, batch=batch, part=part))


def test_what_was_dropped_from_memory_is_saved_too(tmp_path):
    model = hw.open_model(build("llama"))
    run = model.run(given(FAMILIES["llama"]), memory=0)
    run.save(str(tmp_path / "run"))
    assert torch.equal(hw.load_run(str(tmp_path / "run")).weights(2, 5), run.weights(2, 5))


def test_a_proof_that_was_asked_for_is_saved(tmp_path):
    run = hw.open_model(build("llama")).run(given(FAMILIES["llama"]))
    run.save(tmp_path / "before")
    with pytest.raises(ModelError, match="proof must be asked for before a run is saved"):
        _ = hw.load_run(tmp_path / "before").proof
    right = run.proof
    run.save(tmp_path / "after")
    found = hw.load_run(tmp_path / "after")
    assert found.proof == right
    assert found.proof.passed
    found.save(tmp_path / "again")
    assert hw.load_run(tmp_path / "again").proof == right


def test_a_refusal_is_saved(tmp_path):
    run = hw.open_model(drawn(BitNetForCausalLM(BitNetConfig(**GROUPED)))).run(given(FAMILIES["llama"]))
    run.save(tmp_path / "run")
    with pytest.raises(WritesRefused, match=r"writes of model.layers.0.self_attn cannot be attributed to heads"):
        _ = hw.load_run(tmp_path / "run").writes


def test_outputs_are_not_saved(tmp_path):
    hw.open_model(build("llama")).run(given(FAMILIES["llama"])).save(tmp_path / "run")
    with pytest.raises(ModelError, match="outputs must be read before a run is saved"):
        _ = hw.load_run(tmp_path / "run").outputs


def test_an_older_run_is_replaced_and_anything_else_is_kept(tmp_path):
    model = hw.open_model(build("llama"))
    one, other = model.run(torch.arange(3, 9)), model.run(torch.arange(3, 12))
    one.save(tmp_path / "run")
    other.save(tmp_path / "run")
    assert hw.load_run(tmp_path / "run").statistics.sizes["query"] == 9
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ArgumentError, match=r"path must be new or hold an older run, got .*mine"):
        one.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_run_is_never_half_written(tmp_path, monkeypatch):
    model = hw.open_model(build("llama"))
    model.run(torch.arange(3, 9)).save(tmp_path / "run")
    right, count = saving.save_file, []

    def fails(*args, **settings):
        count.append(1)
        if len(count) == 3:
            raise OSError(28, "No space left on device")
        return right(*args, **settings)

    monkeypatch.setattr(saving, "save_file", fails)
    with pytest.raises(ModelError, match=r"the disk must have room, got a full one at .* Nothing was changed; make room."):
        model.run(torch.arange(3, 12)).save(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert hw.load_run(tmp_path / "run").statistics.sizes["query"] == 6


def test_a_full_disk_in_the_words_of_safetensors(tmp_path):
    run = hw.open_model(build("llama")).run(torch.arange(3, 9))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))  # writing more fails, as on a full disk
    try:
        with pytest.raises(ModelError, match=r"the folder to save to must be writable, got Error while serializing: I/O error: .* for .*run"):
            run.save(tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_name_with_a_dot_touches_nothing_beside_it(tmp_path):
    run = hw.open_model(build("llama")).run(torch.arange(3, 9))
    run.save(tmp_path / "v1.0")
    (tmp_path / ".v1.older").mkdir()
    (tmp_path / ".v1.older" / "thesis.txt").write_text("years of work")
    run.save(tmp_path / "v1.0")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".v1.older", "v1.0"]
    assert (tmp_path / ".v1.older" / "thesis.txt").read_text() == "years of work"


def test_nowhere_to_write(tmp_path):
    with pytest.raises(ModelError, match=r"path must be in a directory that exists, got .*nowhere/run'. Create that first"):
        hw.open_model(build("llama")).run(torch.arange(3, 9)).save(tmp_path / "nowhere" / "run")


def without_fingerprints(folder):
    """The same run as an earlier version saved it."""
    told = json.loads((folder / "run.json").read_text())
    del told["files"]
    (folder / "run.json").write_text(json.dumps(told))


def test_one_number_that_changed_on_disk_is_noticed_and_a_run_of_an_earlier_version_is_still_read(tmp_path):
    model = hw.open_model(build("llama"))
    run = model.run(torch.arange(3, 9))
    run.save(tmp_path / "run")
    with (tmp_path / "run" / "call-00001.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x00")
    with pytest.raises(CheckpointError, match=r"call-00001.safetensors must be as it was saved"):
        hw.load_run(tmp_path / "run").weights(1, 0)
    run.save(tmp_path / "run")
    without_fingerprints(tmp_path / "run")
    assert torch.equal(hw.load_run(tmp_path / "run").weights(1, 0), run.weights(1, 0))


def test_files_of_others_beside_an_older_run_stay(tmp_path):
    model = hw.open_model(build("llama"))
    model.run(torch.arange(3, 9)).save(tmp_path / "run")
    (tmp_path / "run" / "notes").mkdir()
    for name in ("thesis.tex", "notes/call-00000.safetensors", "call-00099.safetensors"):
        (tmp_path / "run" / name).write_text(name)
    model.run(torch.arange(3, 12)).save(tmp_path / "run")
    assert hw.load_run(tmp_path / "run").statistics.sizes["query"] == 9
    for name in ("thesis.tex", "notes/call-00000.safetensors", "call-00099.safetensors"):
        assert (tmp_path / "run" / name).read_text() == name
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("works", [True, False])
def test_where_folders_cannot_be_exchanged_in_one_step_a_run_is_replaced_in_two(tmp_path, monkeypatch, works):
    model = hw.open_model(build("llama"))
    model.run(torch.arange(3, 9)).save(tmp_path / "run")
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    monkeypatch.setattr(atomic_folder, "EXCHANGE", 1 << 20)  # a flag that no file system knows
    if works:
        model.run(torch.arange(3, 12)).save(tmp_path / "run")
    else:
        right = Path.rename
        monkeypatch.setattr(Path, "rename", lambda self, to: _full() if to == tmp_path / "run" and not self.name.endswith("-old") else right(self, to))
        with pytest.raises(ModelError, match="the disk must have room"):
            model.run(torch.arange(3, 12)).save(tmp_path / "run")
    assert hw.load_run(tmp_path / "run").statistics.sizes["query"] == (9 if works else 6)
    assert (tmp_path / "run" / "thesis.tex").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_that_was_renamed_away_when_a_kill_came_is_put_back(tmp_path):
    model = hw.open_model(build("llama"))
    model.run(torch.arange(3, 9)).save(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / ".run.part-7-0123456789ab-old")
    model.run(torch.arange(3, 12)).save(tmp_path / "run")
    assert hw.load_run(tmp_path / "run").statistics.sizes["query"] == 9
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def _full():
    raise OSError(28, "No space left on device")


DAMAGES = {
    "nothing there": lambda folder: [path.unlink() for path in folder.iterdir()],
    "no JSON": lambda folder: (folder / "run.json").write_text("{"),
    "other JSON": lambda folder: (folder / "run.json").write_text("{}"),
    "no numbers": lambda folder: (folder / "numbers.safetensors").unlink(),
    "truncated numbers": lambda folder: (folder / "numbers.safetensors").write_bytes(b"123"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_said_in_one_line(damage, tmp_path):
    hw.open_model(build("llama")).run(torch.arange(3, 9)).save(tmp_path / "run")
    DAMAGES[damage](tmp_path / "run")
    said = (
        "numbers.safetensors must be as it was saved, got other content in"
        if damage == "truncated numbers"
        else "path must be a directory that run.save wrote, got"
    )
    with pytest.raises(CheckpointError, match=rf"{said} .*run"):
        hw.load_run(tmp_path / "run")


def test_a_damaged_call_and_a_newer_format(tmp_path):
    hw.open_model(build("llama")).run(torch.arange(3, 9)).save(tmp_path / "run")
    (tmp_path / "run" / "call-00001.safetensors").write_bytes(b"12345678")
    found = hw.load_run(tmp_path / "run")
    assert found.weights(0, 0).shape == (6, 6)
    with pytest.raises(CheckpointError, match=r"call-00001.safetensors must be as it was saved, got other content in .*run"):
        found.weights(1, 0)
    without_fingerprints(tmp_path / "run")
    found = hw.load_run(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"call-00001.safetensors must be whole, got SafetensorError"):
        found.weights(1, 0)
    save_file({"query": torch.zeros(1)}, tmp_path / "run" / "call-00001.safetensors")
    with pytest.raises(CheckpointError, match=r"call-00001.safetensors must be whole, got KeyError"):
        found.weights(1, 0)
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(told | {"format": 99}))
    with pytest.raises(CheckpointError, match="a run must be of format 1, got 99"):
        hw.load_run(tmp_path / "run")


def test_a_mask_known_by_its_bounds():
    bounds = torch.tensor([[[0, 1]]]), torch.tensor([[[1, 3]]])
    rule = IntervalMask(*bounds, torch.tensor([[[[True, True, True], [True, True, False]]]]))
    assert rule.tile(slice(0, 2), slice(0, 3)).tolist() == [[[[True, False, False], [False, True, False]]]]
    assert rule.intervals().first is bounds[0]

"""Nothing outside a checkpoint's folder is read, and nothing that would block is opened: for open_model, save, compare and adapters."""

import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

import headwise as hw
from headwise.errors import CheckpointError
from headwise.interventions.checkpoint_contents import source_contents
from headwise.models.loading.checkpoint_files import check_contained, check_files
from headwise.storage.contained_files import contained_file
from headwise.storage.source_files import origin_of
from tests.models.tiny import build, ids

LEADS_OUT = "is a link that leads out of the folder"
OUTSIDE = "which lies outside its folder"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    place = tmp_path_factory.mktemp("source") / "model"
    build("llama").save_pretrained(place, max_shard_size="20KB")
    return place


@pytest.fixture
def folder(source, tmp_path):
    return Path(shutil.copytree(source, tmp_path / "model"))


def rename_in_index(folder, new):
    """One shard moved to another name, which the index states."""
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    old = sorted(set(content["weight_map"].values()))[0]
    content["weight_map"] = {key: str(new) if name == old else name for key, name in content["weight_map"].items()}
    (folder / new).parent.mkdir(exist_ok=True)
    shutil.move(folder / old, folder / new)
    index.write_text(json.dumps(content))


def every_surface(path):
    """What each way to read a checkpoint raises; the last takes the folder as the tuned side."""
    for read in (hw.open_model, lambda p: hw.compare(p, build("llama"), inputs=ids()), lambda p: hw.compare(build("llama"), p, inputs=ids())):
        with pytest.raises(CheckpointError) as caught:
            read(path)
        yield str(caught.value)


def test_an_index_that_names_a_file_above_is_refused(folder):
    rename_in_index(folder, "../x.safetensors")
    assert all("'../x.safetensors'" in text and OUTSIDE in text for text in every_surface(folder))


def test_an_index_that_names_an_absolute_path_is_refused(folder, tmp_path):
    rename_in_index(folder, tmp_path / "elsewhere.safetensors")
    assert all("elsewhere.safetensors'" in text and OUTSIDE in text for text in every_surface(folder))


@pytest.mark.parametrize("name", ["model-00001-of-00004.safetensors", "config.json", "model.safetensors.index.json", "tokenizer.json"])
def test_a_link_that_leads_out_of_the_folder_is_refused(folder, tmp_path, name):
    first = sorted(folder.glob("*.safetensors"))[0].name
    name = first if name.endswith(".safetensors") else name
    if not (folder / name).exists():
        (folder / name).write_text("{}")
    shutil.move(folder / name, tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    assert all(f"{name} in " in text and LEADS_OUT in text for text in every_surface(folder))


def test_a_folder_inside_that_is_a_link_out_is_no_way_around(folder, tmp_path):
    (tmp_path / "beside").mkdir()
    (folder / "sub").symlink_to(tmp_path / "beside")
    rename_in_index(folder, "sub/x.safetensors")
    assert all("sub/x.safetensors in " in text and LEADS_OUT in text for text in every_surface(folder))


def test_a_link_within_the_folder_is_read(folder):
    first = sorted(folder.glob("*.safetensors"))[0]
    (folder / "kept").mkdir()
    shutil.move(first, folder / "kept" / "it")
    first.symlink_to("kept/it")
    assert hw.open_model(folder).run(ids()).proof.passed


def test_the_folder_itself_may_be_a_link(source, tmp_path):
    (tmp_path / "latest").symlink_to(source)
    assert hw.open_model(tmp_path / "latest").run(ids()).proof.passed


def in_the_hub_cache(source, cache):
    repository = cache / "models--some--llama"
    snapshot = repository / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for n, path in enumerate(sorted(source.iterdir())):
        shutil.copy(path, repository / "blobs" / f"{n:040x}")
        (snapshot / path.name).symlink_to(f"../../blobs/{n:040x}")
    return snapshot


def test_the_cache_of_the_hub_is_read(source, tmp_path):
    snapshot = in_the_hub_cache(source, tmp_path)
    model = hw.open_model(snapshot)
    assert model.run(ids()).proof.passed
    model.edit([hw.Ablate(0, 1)]).save(tmp_path / "edited")
    assert hw.compare(snapshot, tmp_path / "edited", inputs=ids()) is not None


def test_a_snapshot_may_lead_to_blobs_of_its_own_repository_only(source, tmp_path):
    snapshot = in_the_hub_cache(source, tmp_path)
    first = sorted(snapshot.glob("*.safetensors"))[0]
    other = tmp_path / "models--other--one" / "blobs"
    other.mkdir(parents=True)
    shutil.move(first.resolve(), other / "0a")
    first.unlink()
    first.symlink_to(other / "0a")
    with pytest.raises(CheckpointError, match=LEADS_OUT):
        hw.open_model(snapshot)


@pytest.mark.parametrize("kind", ["a named pipe", "a socket", "a device", "a folder"])
@pytest.mark.parametrize("name", ["extra.safetensors", "model.safetensors"])
def test_what_is_no_regular_file_is_refused_at_once(folder, kind, name):
    path = folder / name
    if kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a socket":
        here = os.getcwd()
        os.chdir(folder)  # a socket's path is at most about 100 characters
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(name)
        finally:
            os.chdir(here)
    else:
        try:
            os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("only root may make a device")
    assert all(f"{name} in " in text and f"got {kind}" in text for text in every_surface(folder))


def test_a_pipe_in_place_of_a_text_file_is_refused_at_once(folder):
    os.mkfifo(folder / "tokenizer.json")
    with pytest.raises(CheckpointError, match="tokenizer.json in .* got a named pipe"):
        hw.open_model(folder)


def test_a_link_to_a_device_is_refused(folder):
    (folder / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(CheckpointError, match=LEADS_OUT):
        hw.open_model(folder)


def test_a_link_that_leads_out_is_not_copied_by_a_save(folder, tmp_path):
    (tmp_path / "secret").write_text("of somebody")
    (folder / "notes.md").symlink_to(tmp_path / "secret")
    saved = hw.open_model(folder).edit([hw.Ablate(0, 1)]).save(tmp_path / "edited")
    assert not (saved.folder / "notes.md").exists()
    assert saved.record["left_out"]["notes.md"] == "a link that leads out of the folder"


def test_a_source_whose_file_became_a_link_is_not_saved(folder, tmp_path):
    edited = hw.open_model(folder).edit([hw.Ablate(0, 1)])
    first = sorted(folder.glob("*.safetensors"))[0]
    shutil.move(first, tmp_path / first.name)
    first.symlink_to(tmp_path / first.name)
    with pytest.raises(CheckpointError, match=f"must be as it was when it was opened, got changes in {first.name}"):
        edited.save(tmp_path / "edited")
    with pytest.raises(CheckpointError, match=LEADS_OUT):
        source_contents(origin_of(str(folder)))


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_an_adapter_s_files_lie_in_its_folder(tmp_path, name, kind):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "lora_alpha": 2, "r": 1}))
    if (adapter / name).exists():
        shutil.move(adapter / name, tmp_path / name)
    else:
        (tmp_path / name).write_bytes(b"")
    if kind == "link":
        (adapter / name).symlink_to(tmp_path / name)
    else:
        os.mkfifo(adapter / name)
    with pytest.raises(CheckpointError, match=f"{name} in .*{LEADS_OUT if kind == 'link' else 'got a named pipe'}"):
        hw.compare(build("llama"), adapter, inputs=ids())


def auto_map(folder, **settings):
    config = json.loads((folder / "config.json").read_text())
    mapped = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": mapped} | settings))


def test_a_known_type_of_a_class_of_its_own_needs_code(folder):
    auto_map(folder, architectures=["Model"])
    for text in every_surface(folder):
        assert "a model must not need code of its own" in text and "for its class 'Model'" in text
        assert "trust_remote_code=True to headwise.open_model in Python" in text and "the command line and the page never run" in text


def test_code_beside_a_class_that_transformers_has_is_not_run_and_is_noted(folder):
    auto_map(folder)
    (folder / "own.py").write_text("raise SystemExit('ran')")
    run = hw.open_model(folder).run(ids())
    assert run.proof.passed
    assert any("auto_map names code of its own, which was not run: these are the numbers of transformers' own LlamaForCausalLM" in note for note in run.notes)


NAMES = st.sampled_from(["a.safetensors", "b.safetensors", "sub/a.safetensors", "sub/deep/b.safetensors"])
PARTS = st.sampled_from(["..", ".", "sub", "deep", "a.safetensors", "b.safetensors", "out", "", "C:", "\\", "..\\x"])
LISTED = st.one_of(NAMES, st.lists(PARTS, min_size=1, max_size=5).map("/".join), st.text(max_size=6), st.integers(), st.none())
CONTENTS = st.sampled_from(["file", "pipe", "link in", "link out", "link up", "link to itself", "missing"])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, CONTENTS, max_size=4), st.lists(LISTED, max_size=4), st.booleans())
def test_random_trees_and_indexes_are_refused_or_lie_inside(tree, listed, linked_folder):
    with tempfile.TemporaryDirectory() as base:
        base = Path(base).resolve()
        folder = base / "model"
        (folder / "sub" / "deep").mkdir(parents=True)
        (base / "out").mkdir()
        for outside in (base / "a.safetensors", base / "out" / "a.safetensors", base / "out" / "b.safetensors", folder / "real"):
            outside.write_bytes(b"content")
        if linked_folder:
            (folder / "out").symlink_to(base / "out")
        for name, content in tree.items():
            path = folder / name
            if content == "file":
                path.write_bytes(b"content")
            elif content == "pipe":
                os.mkfifo(path)
            elif content != "missing":
                path.symlink_to({"link in": folder / "real", "link out": base / "out" / "a.safetensors", "link up": "../a.safetensors"}.get(content, path))
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {str(n): name for n, name in enumerate(listed)}}))
        read = [*(path.name for path in folder.glob("*.safetensors")), *listed]
        try:
            check_contained(folder)
        except CheckpointError as error:
            assert "\n" not in str(error)
            assert any(not is_allowed(folder, name) for name in read), error
        else:
            assert all(is_allowed(folder, name) for name in read), read


def is_allowed(folder, name):
    """The rule written again, by following every link one by one."""
    if not isinstance(name, str) or not name or "\0" in name or name.startswith("/") or ("\\" in name and ".." in name.split("\\")) or ".." in name.split("/"):
        return False
    if name[:1] == "\\" or name[1:2] == ":":
        return False
    path, links = folder / name, 0
    while any(os.path.islink(p) for p in (path, *path.parents)) and links < 50:
        link = next(p for p in (*reversed(path.parents), path) if os.path.islink(p))
        path, links = Path(os.path.normpath(link.parent / os.readlink(link) / path.relative_to(link))), links + 1
    return links < 50 and path.is_relative_to(folder) and (not path.exists() or path.is_file())


def test_names_that_are_no_text(tmp_path):
    for name in (3, None, "", "a\0b"):
        with pytest.raises(CheckpointError, match="A checkpoint must name its files by text, got "):
            contained_file(tmp_path, name)
    with pytest.raises(CheckpointError, match="cannot be read: File name too long"):
        contained_file(tmp_path, "x" * 300)


def test_the_plain_folder_is_whole(source):
    check_files(source)
    for path in source.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            assert list(file.keys())

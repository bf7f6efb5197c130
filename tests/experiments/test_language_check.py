from pathlib import Path

import pytest

from headwise.errors import ArgumentError
from headwise.experiments.annotation_files import AnnotationFiles, annotation_files
from headwise.experiments.bible_text import excerpts
from headwise.experiments.language_check import check_language
from tests.experiments.sample_stories import stories

GERMAN = (
    "Es war einmal ein Müller, der war arm, aber er hatte eine schöne Tochter. Nun traf es sich, dass er mit dem König zu sprechen kam, und um sich ein "
    "Ansehen zu geben, sagte er zu ihm: Ich habe eine Tochter, die kann Stroh zu Gold spinnen. Der König sprach zum Müller: Das ist eine Kunst, die mir "
    "wohl gefällt; wenn deine Tochter so geschickt ist, wie du sagst, so bring sie morgen in mein Schloss, da will ich sie auf die Probe stellen. "
)


def parsed(path: Path, sentences: list[str]) -> Path:
    """Every word hangs on the first: here only the words count."""
    lines = []
    for sentence in sentences:
        words = sentence.split()
        lines.append(f"# text = {sentence}")
        lines += [f"{place}\t{word}\t_\tX\t_\t_\t{int(place > 1)}\t{'dep' if place > 1 else 'root'}\t_\t_" for place, word in enumerate(words, start=1)]
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_texts_in_the_language_of_the_annotations_pass(tmp_path):
    path = parsed(tmp_path / "english.conllu", excerpts(12))
    check_language(excerpts(7), annotation_files(path))
    check_language(excerpts(7), AnnotationFiles())


def test_texts_in_another_language_are_refused(tmp_path):
    path = parsed(tmp_path / "english.conllu", excerpts(12))
    with pytest.raises(
        ArgumentError, match=r"texts must be in the language of '.*english\.conllu'\. Its most frequent words make up \d\d% of it, but only \d+% of the texts"
    ):
        check_language([GERMAN] * 4, annotation_files(path))


@pytest.mark.parametrize("kind", ["gap", "winobias"])
def test_pronouns_are_read_too(tmp_path, kind):
    path = tmp_path / f"pronouns.{kind}"
    if kind == "gap":
        columns = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
        rest = "Ann met Eve when she left."
        rows = []
        for i, text in enumerate(excerpts(9)):
            she, ann, eve = (len(text) + 1 + rest.index(word) for word in ("she", "Ann", "Eve"))
            rows.append(f"{i}\t{text} {rest}\tshe\t{she}\tAnn\t{ann}\tTRUE\tEve\t{eve}\tFALSE\tx\n")
        path.write_text(columns + "".join(rows))
    else:
        ends = ("[The nurse] met the judge because [she] was tired.", "The nurse met [the judge] because [she] was tired.")
        path.write_text("".join(f"{i} {text} {ends[i % 2]}\n" for i, text in enumerate(excerpts(9), start=1)))
    notes = annotation_files(gap=path) if kind == "gap" else annotation_files(winobias=path)
    check_language(excerpts(7), notes)
    with pytest.raises(ArgumentError, match="texts must be in the language of"):
        check_language([GERMAN] * 4, notes)


def test_a_few_words_say_nothing_of_their_language(tmp_path):
    path = parsed(tmp_path / "english.conllu", excerpts(12))
    check_language([GERMAN[:200]], annotation_files(path))
    check_language([GERMAN] * 4, annotation_files(parsed(tmp_path / "short.conllu", stories(1))))

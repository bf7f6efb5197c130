from pathlib import Path

import pytest

from headwise.errors import ArgumentError
from headwise.experiments.annotated_files import Annotated, annotated
from headwise.experiments.bible_passages import passages
from headwise.experiments.language import check_language
from tests.experiments.stories import stories

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
    path = parsed(tmp_path / "english.conllu", passages(12))
    check_language(passages(7), annotated(path))
    check_language(passages(7), Annotated())


def test_texts_in_another_language_are_refused(tmp_path):
    path = parsed(tmp_path / "english.conllu", passages(12))
    with pytest.raises(
        ArgumentError, match=r"texts must be in the language of '.*english\.conllu', got texts of which \d+% are its frequent words, where it has \d\d%"
    ):
        check_language([GERMAN] * 4, annotated(path))


@pytest.mark.parametrize("kind", ["gap", "winobias"])
def test_pronouns_are_read_too(tmp_path, kind):
    path = tmp_path / f"pronouns.{kind}"
    if kind == "gap":
        columns = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
        rest = "Ann met Eve when she left."
        rows = []
        for i, text in enumerate(passages(9)):
            she, ann, eve = (len(text) + 1 + rest.index(word) for word in ("she", "Ann", "Eve"))
            rows.append(f"{i}\t{text} {rest}\tshe\t{she}\tAnn\t{ann}\tTRUE\tEve\t{eve}\tFALSE\tx\n")
        path.write_text(columns + "".join(rows))
    else:
        ends = ("[The nurse] met the judge because [she] was tired.", "The nurse met [the judge] because [she] was tired.")
        path.write_text("".join(f"{i} {text} {ends[i % 2]}\n" for i, text in enumerate(passages(9), start=1)))
    notes = annotated(gap=path) if kind == "gap" else annotated(winobias=path)
    check_language(passages(7), notes)
    with pytest.raises(ArgumentError, match="texts must be in the language of"):
        check_language([GERMAN] * 4, notes)


def test_a_few_words_say_nothing_of_their_language(tmp_path):
    path = parsed(tmp_path / "english.conllu", passages(12))
    check_language([GERMAN[:200]], annotated(path))
    check_language([GERMAN] * 4, annotated(parsed(tmp_path / "short.conllu", stories(1))))

"""Files of grammar, pronouns and reactions: what is read of them, and what is said of broken lines."""

import sys

import pytest
import torch

from headwise.analysis.roles.aligned_pairs import reaction, read_reactions
from headwise.analysis.roles.pronouns import read_gap, read_winobias
from headwise.analysis.roles.sentences import read_conllu
from headwise.errors import ArgumentError, MissingPackage
from tests.analysis.data import data

SENTENCE = """# text = He didn't see them.
1\tHe\the\tPRON\t_\t_\t4\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod:neg\t_\t_
4\tsee\tsee\tVERB\t_\t_\t0\troot\t_\t_
5\tthem\tthey\tPRON\t_\t_\t4\tobj\t_\tSpaceAfter=No
5.1\tempty\t_\t_\t_\t_\t_\t_\t4:dep\t_
6\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\t_

"""


def test_words_stand_where_they_are_written(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(SENTENCE)
    (found,) = read_conllu(path)
    assert found.text == "He didn't see them."
    assert [found.text[slice(*span)] for span in found.spans] == ["He", "did", "n't", "see", "them", "."]
    assert found.heads == (3, 3, 3, -1, 3, 3)
    assert found.relations == ("nsubj", "aux", "advmod", "root", "obj", "punct")


def test_words_that_do_not_spell_what_was_written_share_its_place(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(SENTENCE.replace("didn't", "dinna"))
    (found,) = read_conllu(path)
    assert [found.text[slice(*span)] for span in found.spans[1:3]] == ["dinna", "dinna"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("4\tnsubj", "x\tnsubj", r"line 2 of '.*a.conllu' must name a word of its sentence, or 0, as head \(column 7\), got 'x'"),
        ("4\tobj", "9\tobj", r"line 7 of '.*a.conllu' must name a word of its sentence, or 0, as head \(column 7\), got '9'"),
        ("4\taux", "\taux", r"line 4 of .* as head \(column 7\), got ''"),
        ("\t4\tpunct\t_\t_", "\t4", r"line 9 of '.*a.conllu' must have 10 columns between tabs, got 7"),
    ],
)
def test_a_broken_line_is_told_by_its_number(tmp_path, old, new, said):
    path = tmp_path / "a.conllu"
    path.write_text(SENTENCE.replace(old, new))
    with pytest.raises(ArgumentError, match=said):
        read_conllu(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ArgumentError, match=r"file must be one that can be read, got '.*nowhere' \(No such file"):
        read_conllu(tmp_path / "nowhere")
    (tmp_path / "b").write_bytes(b"\xff\xfe1")
    with pytest.raises(ArgumentError, match=r"file must be one that can be read, got '.*b' \(it is not UTF-8\)"):
        read_conllu(tmp_path / "b")
    (tmp_path / "c").write_text("# nothing\n")
    with pytest.raises(ArgumentError, match="conllu must name a file with sentences, got '.*c', which has none"):
        read_conllu(tmp_path / "c")


def test_without_conllu(tmp_path, monkeypatch):
    (tmp_path / "a").write_text(SENTENCE)
    monkeypatch.setitem(sys.modules, "conllu", None)
    with pytest.raises(MissingPackage, match=r"conllu must be installed to read parsed sentences, got none. Run `pip install 'headwise\[text\]'`"):
        read_conllu(tmp_path / "a")


GAP = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"


def test_gap(tmp_path):
    path = tmp_path / "gap.tsv"
    row = "x\tAnn met Eve when she fell.\tshe\t17\tAnn\t0\t{}\tEve\t8\t{}\tu\n"
    path.write_text(GAP + row.format("FALSE", "TRUE") + row.format("FALSE", "FALSE") + row.format("TRUE", "FALSE"))
    first, second = read_gap(path)
    assert [first.text[slice(*span)] for span in (first.place, first.right, first.wrong)] == ["she", "Eve", "Ann"]
    assert second.text[slice(*second.right)] == "Ann"
    path.write_text(GAP + row.format("TRUE", "FALSE") + row.format("TRUE", "FALSE").replace("\t17\t", "\t3\t"))
    with pytest.raises(ArgumentError, match=r"line 3 of '.*gap.tsv' must have Pronoun 'she' at its offset, got '3'"):
        read_gap(path)
    path.write_text("a\tb\n1\t2\n")
    with pytest.raises(ArgumentError, match="gap must name a file with the columns of GAP, got '.*gap.tsv' without Text, Pronoun"):
        read_gap(path)


def test_winobias(tmp_path):
    path = tmp_path / "wino"
    path.write_text("1 [The cook] thanked the nurse because [she] was kind.\n2 The cook thanked [the nurse] because [he] was kind.\n")
    first, second = read_winobias([path])
    assert [first.text[slice(*span)] for span in (first.place, first.right, first.wrong)] == ["she", "The cook", "the nurse"]
    assert [second.text[slice(*span)] for span in (second.place, second.right, second.wrong)] == ["he", "the nurse", "The cook"]
    path.write_text("1 [The cook] thanked the nurse because [she] lost [her] key.\n2 The cook thanked [the nurse] because [he] was kind.\n")
    assert read_winobias([path])[0].place == (35, 38)
    path.write_text("1 The cook thanked [the nurse].\n")
    with pytest.raises(ArgumentError, match=r"line 1 of '.*wino' must have one mention and its pronouns in \[brackets\], got 1 and 0"):
        read_winobias([path])


def test_the_files_as_they_are_published():
    sentences = read_conllu(data("ud_english_ewt/en_ewt-ud-dev.conllu"))
    assert len(sentences) == 2001
    assert all(len(sentence.spans) == len(sentence.heads) == len(sentence.relations) for sentence in sentences)
    pronouns = read_gap(data("gap/gap-development.tsv"))
    assert len(pronouns) > 1500
    assert len(read_winobias([data("winobias/anti_stereotyped_type1.txt.dev")])) > 300


def test_a_reaction_loses_its_numbers_and_keeps_its_pairs():
    from headwise.analysis.roles.aligned_pairs import _without_numbers

    plain, atoms = _without_numbers("[CH3:1][C:2](=[O:3])[OH:4].[NH2:5][c:6]1[nH:7]cc1>>[CH3:1][C:2](=[O:3])[NH:5][c:6]1[nH:7]cc1")
    assert plain == "CC(=O)O.Nc1[nH]cc1>>CC(=O)Nc1[nH]cc1"
    assert [plain[slice(*span)] for span, _ in atoms] == ["C", "C", "O", "O", "N", "c", "[nH]", "c", "c", "C", "C", "O", "N", "c", "[nH]", "c", "c"]
    assert [number for _, number in atoms if number] == ["1", "2", "3", "4", "5", "6", "7", "1", "2", "3", "5", "6", "7"]


class Reader:
    """A model with a tokenizer of one token a character."""

    class tokenizer:
        is_fast = True

        def __new__(cls, text, return_offsets_mapping):
            return {"input_ids": [3] * len(text), "offset_mapping": [(i, i + 1) for i in range(len(text))]}


@pytest.mark.usefixtures("plain")
def test_reactions_that_are_none(tmp_path):
    path = tmp_path / "r.smi"
    path.write_text("[CH3:1][OH:2]>>[CH3:1]Cl\n\nCCO\n")
    with pytest.raises(ArgumentError, match=r"line 3 of '.*r.smi' must have reactants >> products, got 'CCO'"):
        read_reactions(Reader, path)
    path.write_text("CO>>[CH3:1]Cl")
    with pytest.raises(ArgumentError, match=r"line 1 of '.*r.smi' must have atoms of the same number on both sides, got 'CO>>"):
        read_reactions(Reader, path)
    found = reaction(Reader, "[CH3:1][OH:2]>>[CH3:1]Cl")
    assert found.pairs == [((4,), (0,))]
    assert (found.keys, found.among) == (7, [0, 1])
    assert torch.equal(found.what, torch.full((1, 7), 3))

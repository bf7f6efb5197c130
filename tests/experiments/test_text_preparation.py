import pytest

from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.experiments.text_preparation import sample_texts, truncate_texts
from tests.analysis.toys import decoder, encoder
from tests.experiments.sample_stories import stories


def test_few_texts_are_all_drawn_and_many_are_drawn_from_in_their_order():
    texts = [str(number) for number in range(50)]
    assert sample_texts(texts, 50, 0) == texts
    some = sample_texts(texts, 7, 0)
    assert len(some) == 7 and some == sorted(some, key=int)
    assert sample_texts(texts, 7, 0) == some != sample_texts(texts, 7, 1)


@pytest.mark.parametrize("make", [decoder, encoder])
def test_a_text_is_cut_to_whole_words_that_fit(make):
    model = make()
    long = stories(1, 12)[0]
    (found,) = truncate_texts(model, [long], 20)
    assert long.startswith(found) and long[len(found)] == " "
    count = len(model.tokenizer(found)["input_ids"])
    assert 18 <= count <= 20
    longer = " ".join(long.split(" ")[: len(found.split(" ")) + 1])
    assert len(model.tokenizer(longer)["input_ids"]) > 20


def test_a_text_without_spaces_is_cut_between_letters():
    model = decoder()
    (found,) = truncate_texts(model, ["1" * 40], 9)
    assert found == "1" * 9


def test_a_short_text_stays_as_it_is():
    assert truncate_texts(decoder(), stories(2), 500) == stories(2)


def test_what_is_too_short_or_no_text_is_refused(plain):
    with pytest.raises(ArgumentError, match=r"Each text needs at least 8 tokens, got 2 in 'the cat'\. Join it with another text, or leave it out"):
        truncate_texts(decoder(), [*stories(1), "the cat"], 20)
    with pytest.raises(ArgumentTypeError, match=r"texts must be a list of str, got int as element 2\."):
        truncate_texts(decoder(), [*stories(1), 7], 20)

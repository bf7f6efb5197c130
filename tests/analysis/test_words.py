"""Words from tokens, and weights between words."""

import pytest
import torch

from headwise.analysis.roles.word_alignment import joined, tokens_of
from headwise.errors import ModelError
from tests.analysis.toys import tokenizer


def test_weight_to_a_word_is_the_sum_and_from_it_the_mean():
    weights = torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    units = [[0], [1, 2], [3, 4]]
    found = joined(weights, units, units)
    for head in range(3):
        for a, one in enumerate(units):
            for b, other in enumerate(units):
                right = sum(float(weights[head, i, j]) for i in one for j in other) / len(one)
                assert float(found[head, a, b]) == pytest.approx(right, abs=1e-6)
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 3))


def test_tokens_of_words_leave_spaces_and_special_tokens_out():
    text = "the cat 42 ."
    ids, units = tokens_of(tokenizer(True), text, [(0, 3), (4, 7), (8, 10), (11, 12)])
    assert len(ids) == 7
    assert units == [(1,), (2,), (3, 4), (5,)]


def test_a_word_that_shares_its_token_with_another():
    _, units = tokens_of(tokenizer(True), "the cat", [(0, 3), (4, 6), (6, 7)])
    assert units == [(1,), (2,), (2,)]


@pytest.mark.usefixtures("plain")
def test_without_a_tokenizer_that_knows_places():
    with pytest.raises(ModelError, match="a tokenizer must be there to tell words apart, got none"):
        tokens_of(None, "the cat", [(0, 3)])
    with pytest.raises(ModelError, match="a tokenizer must tell where tokens stand in the text, got object"):
        tokens_of(object(), "the cat", [(0, 3)])

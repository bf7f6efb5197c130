import pytest

from headwise.errors import ArgumentError
from headwise.render.head_table import HeadTable, number

NAN = float("nan")


def table(values, layers=None, group=1):
    return HeadTable("self", "first", "The weight on the first key.", "", layers or tuple(range(len(values))), values, group)


def test_scale_starts_at_zero_unless_something_lies_below():
    assert table(((0.2, NAN), (0.7, 0.4))).scale == (0.0, 0.7)
    assert table(((-0.5, 0.25),)).scale == (-0.5, 0.25)


def test_scale_of_equal_or_missing_numbers_still_has_two_ends():
    assert table(((0.0, 0.0),)).scale == (0.0, 1.0)
    assert table(((NAN,),)).scale == (0.0, 1.0)
    assert table(((-2.0, -2.0),)).scale == (-2.0, -1.0)


def test_share_runs_from_end_to_end():
    found = table(((-0.5, 1.5),))
    assert [found.share(value) for value in (-0.5, 0.5, 1.5)] == [0.0, 0.5, 1.0]


def test_only_keeps_the_layers_asked_for():
    found = table(((0.1,), (0.2,), (0.3,)), layers=(4, 5, 7)).only([7, 4])
    assert found.layers == (4, 7)
    assert found.values == ((0.1,), (0.3,))
    assert table(((0.1,),)).only([]).layers == (0,)


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(ArgumentError, match=r"layer must be one of 0 to 1 in this model, got 31\. Choose one of these\."):
        table(((0.1,), (0.2,))).only([31])


def test_heads_counts_the_widest_layer():
    assert table(((0.1,), (0.2, 0.3))).heads == 2


@pytest.mark.parametrize(("value", "widest", "word"), [(0.5, 9.99, "0.50"), (0.5, 10.0, "0.5"), (99.94, 99.94, "99.9"), (512.0, 512.0, "512"), (NAN, 1.0, "·")])
def test_numbers_share_their_digits(value, widest, word):
    assert number(value, widest) == word

from headwise.render.head_table import HeadTable
from headwise.render.standout_heads import QUESTIONS, standout_heads

NAN = float("nan")


def table(name, values):
    return HeadTable("self", name, "", "", tuple(range(len(values))), values)


def test_largest_come_first_and_missing_heads_never():
    found = standout_heads({"previous": table("previous", ((0.2, NAN), (0.9, 0.5)))}, count=5)
    assert [answer.question for answer in found] == ["most on the previous token"]
    assert found[0].heads == ((1, 0, 0.9), (1, 1, 0.5), (0, 0, 0.2))


def test_each_question_reads_its_own_table():
    names = list(dict.fromkeys(QUESTIONS.values()))
    found = standout_heads({name: table(name, ((float(place), 0.0),)) for place, name in enumerate(names)}, count=1)
    assert {answer.measure: answer.heads[0][2] for answer in found} == {name: float(place) for place, name in enumerate(names)}


def test_a_measure_without_a_table_is_left_out():
    assert standout_heads({}) == ()

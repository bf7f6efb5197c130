"""A fault by name: which attack gives the same numbers, also where the subject's triangle sits in the other corner."""

from dataclasses import replace

from headwise.attention.attend import attend
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.answer import PLAIN
from headwise.conformance.conventions import Conventions
from headwise.conformance.minimise.diagnosis import diagnose
from headwise.conformance.problems.problem_pool import make_problem

WORDS = frozenset({"causal", "scale", "groups", "value_width"})
PROBLEMS = [make_problem(causal=True, seed=n) for n in range(3)] + [make_problem(causal=True, queries=5, seed=3), make_problem(seed=4)]


def subject(corner: str, stretch: float = 1.0) -> CallSubject:
    """Right but for its scale."""

    def compute(asked, mode):
        scale = asked.query.shape[3] ** -0.5 if asked.scale is None else asked.scale
        offset = 0 if corner == "top-left" and asked.query_offset is None else asked.query_offset
        return attend(asked.query, asked.key, asked.value, causal=asked.causal, query_offset=offset, scale=scale * stretch)

    return CallSubject("stretched", compute, WORDS, Conventions(corner=corner, weights="never"))


def test_a_fault_is_known_by_its_numbers():
    asked = [some.to(subject("bottom-right").dtypes[0]) for some in PROBLEMS]
    wrong = subject("bottom-right", 0.5)  # 1/√D · 1/2 = 1/D for D = 4
    found = diagnose(wrong, "default_scale", [(asked[0], PLAIN)], asked[1:])
    assert found.mutation == "scale_exponent_wrong"


def test_the_corner_of_the_triangle_does_not_hide_it():
    asked = [some.to(subject("top-left").dtypes[0]) for some in PROBLEMS]
    found = diagnose(subject("top-left", 0.5), "default_scale", [(asked[0], PLAIN)], asked[1:])
    assert found.mutation == "scale_exponent_wrong"
    spelled = replace(subject("bottom-right", 0.5), conventions=Conventions(corner="top-left", weights="never"))
    assert diagnose(spelled, "default_scale", [(asked[0], PLAIN)], asked[1:]) is None


def test_what_is_like_nothing_has_no_name():
    asked = [some.to(subject("bottom-right").dtypes[0]) for some in PROBLEMS]
    assert diagnose(subject("bottom-right", 0.77), "default_scale", [(asked[0], PLAIN)], asked[1:]) is None

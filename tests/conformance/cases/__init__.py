"""112 faults that people reported, each as one small input with its right value, worked out by hand."""

from tests.conformance.cases import controls, heads, layers, masks, modifiers, numbers
from tests.conformance.cases.case import Case

CASES: dict[str, Case] = {case.id: case for part in (masks, modifiers, heads, layers, numbers, controls) for case in part.CASES}

"""The 3 × 4 example: five moves proved, each felled by the lies that it is there for, and the engine's own numbers beside them."""

import json
from dataclasses import replace
from itertools import combinations, product

import pytest
import torch
from flint import arb, fmpq_mat

import headwise as hw
from headwise.attention.layer import LayerParams, trace
from headwise.catalog import entries
from headwise.conformance.exact.ball_arithmetic import NARROW, exact, precision, widest
from headwise.conformance.exact.exact_trace import exact_trace
from headwise.conformance.exact.witness import ROUTES, witness
from headwise.conformance.five_moves import EXAMPLE, FiveMoves, five_moves
from headwise.conformance.invariants.invariant import invariants
from headwise.conformance.mutations.mutation import mutations
from headwise.errors import ArgumentError, Undecided
from tests.attention.problem import normal

SIZES = (1, 2, 4)
CODES = ["M1", "M2", "M3", "M4", "M5"]
UNDETECTABLE = {("tie_heads", 1), ("swap_w_o_blocks", 1), ("omit_scale", 4)}
sizes = pytest.mark.parametrize("h", SIZES)


def states(verdicts) -> dict[str, str]:
    return {code: verdict.state for code, verdict in verdicts.items()}


@sizes
def test_all_five_hold_and_the_witness_agrees(h):
    found = hw.five_moves(h)
    assert states(found.verdicts) == states(found.witness) == {**dict.fromkeys(CODES, "holds"), "M5": "vacuous" if h == 1 else "holds"}
    assert found.holds
    assert not found.red
    assert found.fallen == ()


@sizes
def test_equal_means_narrower_than_1e_25_and_differs_means_apart(h):
    found = five_moves(h)
    for verdict in (*found.verdicts.values(), *found.witness.values()):
        for residual in verdict.residuals:
            assert residual.holds
            assert residual.bound < NARROW if residual.relation == "≤" else residual.bound > 0.05, residual
    for matrix in (*found.trace.scores, *found.trace.weights, *found.trace.z, *found.trace.writes, found.trace.concat, found.trace.out):
        assert widest(matrix) < 1e-25


@sizes
@pytest.mark.parametrize("attack", mutations("exact"))
def test_each_attack_fells_what_it_says_and_nothing_else(h, attack):
    found = five_moves(h, attack)
    right = () if (attack, h) in UNDETECTABLE else tuple(sorted(invariants()[name].code for name in mutations("exact")[attack].detected_by))
    assert found.fallen == right
    assert tuple(code for code, verdict in found.witness.items() if verdict.state == "falls") == right
    assert found.red == bool(right)
    assert found.holds == (not right)


@sizes
def test_tied_heads_leave_four_moves_standing(h):
    found = five_moves(h, attack="tie_heads")
    assert states(found.verdicts) == {**dict.fromkeys(CODES, "holds"), "M5": "vacuous" if h == 1 else "falls"}
    if h == 1:
        assert found.verdicts["M5"].why == "there is one head, and no other to differ from"
    else:
        assert found.verdicts["M5"].bound < NARROW
        assert [str(residual.relation) for residual in found.verdicts["M5"].residuals] == ["≤"] * (h * (h - 1) // 2)
        first, *others = found.matrices["weights"]
        assert all(other == first for other in others)


def test_every_invariant_is_felled_by_some_attack():
    assert {name for attack in mutations("exact").values() for name in attack.detected_by} == set(invariants("exact"))


def test_the_witness_has_a_route_for_every_invariant():
    assert list(ROUTES) == CODES
    assert [invariant.code for invariant in invariants("exact").values()] == CODES


@pytest.mark.parametrize("entry", [*invariants("exact").values()], ids=invariants("exact"))
def test_every_invariant_has_its_sentence_and_formula(entry):
    assert entry.statement.endswith(".")
    assert len(entry.statement) > 40
    assert any(sign in entry.formula for sign in "=≠")


@pytest.mark.parametrize("attack", mutations("exact").values(), ids=mutations("exact"))
def test_every_attack_says_what_it_is(attack):
    assert attack.description.endswith(".")
    assert attack.harmless_when
    assert set(attack.detected_by) <= set(entries("headwise.conformance.invariants"))


def test_a_witness_that_disagrees_turns_red():
    found = five_moves(2)
    assert FiveMoves(2, None, found.trace, found.verdicts, five_moves(2, "tie_heads").witness).red
    assert FiveMoves(2, None, found.trace, five_moves(2, "tie_heads").verdicts, found.witness).red


def as_floats(w: fmpq_mat) -> torch.Tensor:
    return torch.tensor([[int(x.p) / int(x.q) for x in row] for row in w.tolist()], dtype=torch.float64)


@sizes
def test_the_engine_computes_what_is_proved(h):
    """`layer.trace` in float64 on the same numbers: every tensor of the path lies within a few roundings of the ball."""
    found, path = five_moves(h), trace(as_floats(EXAMPLE.x)[None], learned(h))
    for name in ("q", "k", "v", "scores", "weights", "z", "writes"):
        for head, matrix in enumerate(getattr(found.trace, name)):
            near(matrix, getattr(path, name)[0, head], name)
    near(found.trace.concat, path.concat[0], "concat")
    near(found.trace.out, path.out[0], "out")


def learned(h: int) -> LayerParams:
    w_q, w_k, w_v = (as_floats(w).unflatten(1, (h, -1)) for w in (EXAMPLE.w_q, EXAMPLE.w_k, EXAMPLE.w_v))
    return LayerParams(w_q, w_k, w_v, as_floats(EXAMPLE.w_o).unflatten(0, (h, -1)))


def near(balls, floats: torch.Tensor, what: str) -> None:
    """Within 64 units of the largest number's last place, the ball's own width included."""
    limit = 64 * 2**-52 * max(1.0, float(floats.abs().max()))
    for i, j in product(range(balls.nrows()), range(balls.ncols())):
        assert (balls[i, j] - arb(float(floats[i, j]))).abs_upper() < limit, what


@sizes
def test_the_nearest_floats_of_every_matrix_are_at_hand(h):
    found = five_moves(h)
    width = 4 // h
    shapes = {name: torch.tensor(numbers).shape for name, numbers in found.matrices.items()}
    assert {name: list(shape) for name, shape in shapes.items()} == {
        "x": [3, 4],
        "w_q": [h, 4, width],
        "w_k": [h, 4, width],
        "w_v": [h, 4, width],
        "w_o": [h, width, 4],
        "q": [h, 3, width],
        "k": [h, 3, width],
        "v": [h, 3, width],
        "scores": [h, 3, 3],
        "weights": [h, 3, 3],
        "z": [h, 3, width],
        "writes": [h, 3, 4],
        "concat": [3, 4],
        "out": [3, 4],
    }
    path = trace(as_floats(EXAMPLE.x)[None], learned(h))
    assert torch.allclose(torch.tensor(found.matrices["weights"], dtype=torch.float64), path.weights[0], rtol=0, atol=2**-50)
    assert found.maps["w_o"] == as_floats(EXAMPLE.w_o).tolist()
    again = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert again["matrices"]["out"] == found.matrices["out"]
    assert again["verdicts"]["M3"]["state"] == "holds"
    assert again["heads"] == h


def test_the_matrices_are_those_of_the_lie():
    found = five_moves(2, "tie_heads")
    assert found.matrices["w_q"][1] == found.matrices["w_q"][0]
    assert found.matrices["w_o"][1] != found.matrices["w_o"][0]
    assert found.maps["w_q"] == five_moves(2).maps["w_q"]
    assert found.as_dict()["attack"] == "tie_heads"
    assert found.as_dict()["verdicts"]["M5"]["says"].startswith("patterns of heads 0 and 1: difference ≤ ")


def test_the_example_is_no_blind_input():
    """Nothing symmetric, no row even, no two weights alike, heads far apart: a lie has nowhere to hide."""
    for w in (EXAMPLE.w_q, EXAMPLE.w_k, EXAMPLE.w_v, EXAMPLE.w_o):
        assert w != w.transpose()
        assert w.det() != 0
    for h in SIZES:
        weights = torch.tensor(five_moves(h).matrices["weights"])
        rows = weights.sort(-1).values
        assert rows.diff(dim=-1).min() > 0.04
        assert weights.min() > 0.03
        assert all((weights[a] - weights[b]).abs().max() > 0.3 for a, b in combinations(range(h), 2))


@pytest.mark.parametrize("h", [0, 3, 8, -1, "2", 2.5, True, None])
def test_another_number_of_heads_is_refused(h, plain):
    with pytest.raises(ArgumentError, match=rf"h must be 1, 2 or 4, which divide the 4 features of the example, got {h!r}\. Choose one of them\."):
        five_moves(h)


def test_an_attack_that_does_not_exist_is_refused():
    with pytest.raises(ArgumentError, match=r"attack must be one of ablate_output_columns, .*tie_heads, got 'tie'\. Leave it out for the unchanged layer\."):
        five_moves(2, "tie")


def test_too_few_bits_prove_nothing():
    with precision(60), pytest.raises(Undecided, match=r"must be known to within 1e-25 to be compared, got .* at 60 bits\. Use more bits\."):
        [invariant.verdict(exact_trace(EXAMPLE, 2)) for invariant in invariants("exact").values()]


@pytest.mark.parametrize("heads", [1, 2, 3, 6])
def test_the_proof_is_not_of_the_example_alone(heads):
    """Another layer of real numbers, other sizes: five hold, the witness agrees."""
    layer = replace(EXAMPLE, x=exact(normal(5, 6)), **{name: exact(0.6 * normal(6, 6, seed=n + 1)) for n, name in enumerate(("w_q", "w_k", "w_v", "w_o"))})
    with precision():
        walked = exact_trace(layer, heads)
        assert [invariant.verdict(walked).state for invariant in invariants("exact").values()] == ["holds"] * 4 + ["vacuous" if heads == 1 else "holds"]
        assert all(verdict.state != "falls" for verdict in witness(walked, {move.code: move.vacuous for move in invariants("exact").values()}).values())

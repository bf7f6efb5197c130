"""Ball arithmetic: numbers come in exactly, comparisons are proofs, and what cannot be proved is said."""

from fractions import Fraction
from math import inf
from threading import Thread

import flint
import pytest
import torch
from flint import arb, arb_mat, fmpq, fmpq_mat

from headwise.conformance.exact import ball_arithmetic as balls
from headwise.conformance.exact.ball_arithmetic import differ, dot, enclose, equal, exact, floats, precision, softmax, widest
from headwise.errors import Undecided


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_floats_come_in_exactly(dtype):
    numbers = torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    numbers[0, :3] = torch.tensor([0.1, -3e-5, 65504.0])
    rationals, enclosures = exact(numbers), enclose(numbers)
    for (i, j), number in zip(((i, j) for i in range(5) for j in range(7)), numbers.double().flatten().tolist(), strict=True):
        assert Fraction(int(rationals[i, j].p), int(rationals[i, j].q)) == Fraction(number)
        assert enclosures[i, j].is_exact()
        assert float(enclosures[i, j]) == number
    assert floats(rationals) == floats(enclosures) == numbers.double().tolist()


def test_a_rational_is_enclosed_one_rounding_wide():
    with precision(64):
        third = enclose(fmpq_mat(1, 1, [fmpq(1, 3)]))
    with precision(200):
        assert third[0, 0].contains(fmpq(1, 3))
    assert 0 < widest(third) < 2**-64


def test_a_row_of_weights_is_what_it_should_be():
    """Against decimals worked out by hand: e^0 : e^ln3 : e^ln4 = 1 : 3 : 4."""
    with precision():
        weights = softmax([arb(0), arb(3).log(), None, arb(4).log()])
        assert [weight.contains(fmpq(n, 8)) for weight, n in zip(weights, (1, 3, 0, 4), strict=True)] == [True] * 4
        spared = softmax([arb(0), arb(3).log()], sink=arb(4).log())
        assert [weight.contains(fmpq(n, 8)) for weight, n in zip(spared, (1, 3), strict=True)] == [True] * 2
        assert softmax([None, None]) == [0, 0]
        huge = softmax([arb(10) ** 6, arb(10) ** 6 + arb(3).log()])
        assert huge[1].contains(fmpq(3, 4))
        assert float(huge[1].rad()) < 1e-25


def test_a_dot_product():
    assert dot([arb(2), arb(-3)], [arb(5), arb(7)]) == -11


def test_equal_and_differ_are_proofs():
    with precision():
        third, other = arb(1) / 3, arb(1) / 3 + arb("1e-20")
        same = equal("thirds", arb_mat([[third, 1]]), arb_mat([[1 - arb(2) / 3, 1]]))
        assert (same.holds, same.relation) == (True, "≤")
        assert 0 < same.bound < 1e-37
        apart = equal("thirds", arb_mat([[third, 1]]), arb_mat([[other, 1]]))
        assert (apart.holds, apart.relation) == (False, "≥")
        assert 0.999e-20 < apart.bound <= 1e-20
        assert not differ("thirds", arb_mat([[third]]), arb_mat([[third]])).holds
        assert differ("thirds", arb_mat([[third]]), arb_mat([[other]])).holds
        assert str(apart) == "thirds: difference ≥ 1e-20"


def test_exact_numbers_leave_no_room():
    assert equal("one", arb_mat([[1]]), arb_mat([[1]])).bound == 0.0
    assert equal("nothing", arb_mat(0, 3), arb_mat(0, 3)).bound == 0.0


def test_another_shape_is_another_matrix():
    found = equal("columns", arb_mat(2, 3), arb_mat(3, 2))
    assert not found.holds
    assert found.bound == inf
    assert found.what == "columns: shapes (2, 3) and (3, 2)"


@pytest.mark.parametrize("vague", [arb(1, 1e-20), arb("nan")])
def test_what_is_not_known_well_enough_is_undecided(vague):
    message = r"pi must be known to within 1e-25 to be compared, got .* at 53 bits\. Use more bits\."
    with pytest.raises(Undecided, match=message):
        equal("pi", arb_mat([[vague]]), arb_mat([[1]]))
    with pytest.raises(Undecided, match=message):
        differ("pi", arb_mat([[vague]]), arb_mat([[1]]))


def test_vague_numbers_may_still_be_proved_to_differ():
    assert differ("one and two", arb_mat([[arb(1, 0.1)]]), arb_mat([[2]])).bound == pytest.approx(0.9)


def test_precision_is_put_back_and_belongs_to_one_thread_at_a_time():
    before, seen = flint.ctx.prec, []

    def work(bits):
        for _ in range(50):
            with precision(bits):
                seen.append((bits, flint.ctx.prec))

    threads = [Thread(target=work, args=(bits,)) for bits in (64, 96, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 150
    assert all(asked == got for asked, got in seen)
    assert flint.ctx.prec == before


def test_side_by_side():
    joined = balls.side_by_side([arb_mat([[1], [2]]), arb_mat([[3, 4], [5, 6]])])
    assert floats(joined) == [[1, 3, 4], [2, 5, 6]]

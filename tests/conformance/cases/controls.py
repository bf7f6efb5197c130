"""Reports that are no faults: what they accuse is right, and nobody may cry."""

import torch

from tests.conformance.cases.case import Case, columns, looking_at_all, means, of_heads, row, same, shown, t
from tests.conformance.cases.heads import numbered
from tests.conformance.cases.layers import four_wide, two_of_two

own_hidden = looking_at_all(four_wide, two_of_two, columns(2, 2), mask=~torch.eye(2, dtype=torch.bool))
gated = means([1, 3], heads=2, sink=t(0.6931471805599453, 0))

CASES = (
    Case(
        "CTRL-01",
        "heads_write_straight_into_the_model",
        looking_at_all(four_wide, two_of_two, columns(2, 2)),
        t([[3, 4, 8, 6], [3, 4, 8, 6]]),
        ("heads_write_separately",),
    ),
    Case("CTRL-02", "a_token_moves_its_own_hidden_row", own_hidden, t([[5, 6, 9, 8], [1, 2, 7, 4]]), ("the_future_does_not_matter",)),
    Case(
        "CTRL-04",
        "a_constant_is_added_to_what_is_seen",
        means([6, 12, 24], causal=True, mask=shown([1, 1, 1])),
        same([6, 9, 14]),
        ("a_constant_changes_nothing", "modifiers_come_in_order"),
    ),
    Case("CTRL-06", "key_heads_in_turn_as_declared", numbered(4, 2), of_heads([0], [1], [0], [1]), ("neighbours_share_a_key_head",)),
    Case("CTRL-08", "numbers_are_stored_by_column", row([1, 0], [0, 1.0986122886681098], [0, 4]), same([3, 2]), ("golden_numbers",)),
    Case("CTRL-10", "sink_is_a_gate", gated, of_heads([1, 1], [4 / 3, 4 / 3]), ("sink_takes_its_share",)),
)

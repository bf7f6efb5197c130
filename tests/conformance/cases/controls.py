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
        "fused_value_output_projection",
        looking_at_all(four_wide, two_of_two, columns(2, 2)),
        t([[3, 4, 8, 6], [3, 4, 8, 6]]),
        ("output_projection_per_head",),
    ),
    Case("CTRL-02", "output_depends_on_own_query", own_hidden, t([[5, 6, 9, 8], [1, 2, 7, 4]]), ("causality",)),
    Case(
        "CTRL-04",
        "constant_added_to_scores",
        means([6, 12, 24], causal=True, mask=shown([1, 1, 1])),
        same([6, 9, 14]),
        ("softmax_shift_invariance", "score_modifier_order"),
    ),
    Case("CTRL-06", "kv_heads_tiled_as_declared", numbered(4, 2), of_heads([0], [1], [0], [1]), ("grouped_query_head_mapping",)),
    Case("CTRL-08", "column_major_storage", row([1, 0], [0, 1.0986122886681098], [0, 4]), same([3, 2]), ("golden_values",)),
    Case("CTRL-10", "sink_as_gate", gated, of_heads([1, 1], [4 / 3, 4 / 3]), ("attention_sink",)),
)

"""The claims, one file each. A file that is not named in `ORDER` comes after those that are."""

ORDER = (
    "more_heads",
    "one_head_cannot",
    "distinct_roles",
    "weights_show_use",
    "specialise",
    "output_loses",
    "muted_at_the_gate",
    "equal_say",
    "others_carry",
    "quadratic",
    "first_token_sink",
    "induction_copies",
    "slice_after_output",
    "one_head_is_single",
)

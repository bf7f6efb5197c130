"""Looking at what came after, the last time."""

from functools import partial

from headwise.analysis.roles.catalog._repeats import asker, repeats
from headwise.analysis.roles.role import Role

ENTRY = Role(
    definition="from a token that was there before looks at the token behind its earlier self",
    source="Olsson et al. 2022, prefix matching; here with random lengths",
    baseline="the best fixed offset; the same weight everywhere",
    hit=False,
    read=repeats,
    ask=partial(asker, task="the token behind the earlier one", behind=1),
)

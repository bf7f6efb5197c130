"""Looking at the same token, the last time."""

from functools import partial

from headwise.analysis.roles.catalog._repeats import asker, repeats
from headwise.analysis.roles.role import Role

ENTRY = Role(
    definition="from a token that was there before looks at its earlier self",
    source="Wang et al. 2022, duplicate token heads; here with random lengths",
    baseline="the best fixed offset; the same weight everywhere",
    hit=False,
    read=repeats,
    ask=partial(asker, task="the same token, earlier", behind=0),
)

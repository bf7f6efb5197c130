"""Is it true? Invariants keep the mathematics, attacks try to break it, oracles share nothing with what they judge."""

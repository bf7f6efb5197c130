"""Known ways to get attention wrong, each with the invariants that detect it."""

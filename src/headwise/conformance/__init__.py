"""Is an attention implementation right? Problems, independent oracles, invariants, mutations, and reports."""

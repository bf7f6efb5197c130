"""Is an attention implementation right? Problems, independent references, invariants, mutations, and reports."""

"""Invariants of an implementation: precision, gradients, layout, determinism."""

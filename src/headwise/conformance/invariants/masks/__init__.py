"""Invariants of masks, padding, causality, windows and caches."""

"""Invariants of heads, grouped key heads and the output."""

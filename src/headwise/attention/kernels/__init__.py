"""Implementations of one call: one file each, none of which imports another."""

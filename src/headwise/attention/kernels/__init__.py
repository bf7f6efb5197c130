"""Implementations of attention: one file each, none of which imports another."""

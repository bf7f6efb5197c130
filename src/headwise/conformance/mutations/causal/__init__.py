"""Causality, windows and offsets."""

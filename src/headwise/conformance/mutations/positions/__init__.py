"""Rotations, distances and slopes."""

"""Padding, hidden values and rows that see nothing."""

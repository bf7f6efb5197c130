"""Mutations of the example of the five moves."""

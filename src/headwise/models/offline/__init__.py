"""Runs without a model: read from disk, or made from attention weights that the user already has."""

"""Heads split, grouped, projected or merged wrongly."""

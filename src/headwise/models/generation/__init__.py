"""Greedy generation with a cache, merged into one run."""

"""Estimates with 95 % confidence intervals: means over texts, means over training seeds, and other statistics by bootstrap."""

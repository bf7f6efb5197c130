"""Converters of demo models, one file each: from what a package holds to a directory that transformers loads."""

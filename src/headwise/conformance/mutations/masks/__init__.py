"""Masks read, combined or applied wrongly."""

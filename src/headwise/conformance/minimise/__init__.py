"""Failures made small, merged and matched to known bugs."""

"""The edits, one file each."""

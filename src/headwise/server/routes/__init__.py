"""Routes, one file a subject."""

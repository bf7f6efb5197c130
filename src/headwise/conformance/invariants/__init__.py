"""Properties of every correct attention, one file each."""

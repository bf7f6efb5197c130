"""One file an edit; each defines `ENTRY`."""

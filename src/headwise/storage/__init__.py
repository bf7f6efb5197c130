"""What is written to disk: whole files and folders, the cache, and how cached values are keyed."""

"""What is written to disk, and how what is stored is keyed."""

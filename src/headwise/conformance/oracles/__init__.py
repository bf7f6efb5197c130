"""References in NumPy and float64 that share no code with headwise."""

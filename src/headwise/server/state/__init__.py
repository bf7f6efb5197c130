"""What the server holds: models, sessions, runs, caches."""

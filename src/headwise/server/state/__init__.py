"""What the server holds: models, sessions, runs, jobs, and what is kept from one start to the next."""

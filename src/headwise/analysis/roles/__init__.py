"""Which heads play which roles."""

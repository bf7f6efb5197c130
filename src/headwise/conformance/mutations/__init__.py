"""Ways to get attention wrong, one a file. Start a new one from the shortest."""

"""What every attention keeps, one a file. Start a new one from the shortest."""

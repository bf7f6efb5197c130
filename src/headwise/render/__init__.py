"""What a reader sees of a run: tables for the terminal and figures, all drawn from the same few values."""

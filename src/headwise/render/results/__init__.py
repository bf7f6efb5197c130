"""Results as tables for the terminal and as rows for files."""

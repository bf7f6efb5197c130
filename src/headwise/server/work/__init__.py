"""Where work is done: threads and processes."""

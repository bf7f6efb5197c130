"""What the routes send, as plain data and arrays."""

"""What the routes send: plain data and arrays computed from runs and models."""

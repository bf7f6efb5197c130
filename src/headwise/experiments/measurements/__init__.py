"""What claims measure, one file a measurement."""

"""headwise: exact numbers for every head of a transformer, checked against the model's own output."""

__version__ = "0.1.0"

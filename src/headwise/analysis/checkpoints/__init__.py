"""What changed in each head between two checkpoints."""

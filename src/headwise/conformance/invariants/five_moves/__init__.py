"""The five moves M1 to M5, proved in ball arithmetic."""

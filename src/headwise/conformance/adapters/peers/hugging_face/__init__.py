"""The attention implementations of transformers."""

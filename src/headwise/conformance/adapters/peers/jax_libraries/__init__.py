"""Attention of jax, flax and equinox."""

"""Attention that runs outside torch, or inside tiny models of transformers."""

"""Attention of PyTorch and of libraries on it."""

"""Attention of Keras 3 on its backends."""

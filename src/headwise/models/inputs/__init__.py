"""From text, audio or tensors to the keyword arguments of a model."""

"""Invariants of scale, softmax, sink, bias and positions."""

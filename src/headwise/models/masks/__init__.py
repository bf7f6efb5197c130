"""Masks and position biases as functions of query and key, evaluated tile by tile."""

"""Dropout, gradients, strides, sizes, returned weights."""

"""The inputs on which an attention implementation is tried."""

"""The inputs on which an implementation is tried, and the protocol of an implementation."""

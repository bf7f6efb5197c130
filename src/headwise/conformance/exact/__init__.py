"""Proofs in ball arithmetic: the five moves, the witness, and certified error bounds."""

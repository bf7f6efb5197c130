"""Models that share the tensors of the loaded one and change what runs: clones and hooks."""

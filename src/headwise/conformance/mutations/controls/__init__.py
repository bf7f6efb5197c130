"""No faults: unusual ways that no invariant may accuse."""

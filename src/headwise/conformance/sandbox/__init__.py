"""Foreign implementations, run under watch and, with a time limit, in a process of their own."""

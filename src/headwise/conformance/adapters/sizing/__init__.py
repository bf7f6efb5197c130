"""A problem of any size asked of a module whose size is fixed: cut down to it, or padded up to it."""

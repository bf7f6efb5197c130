"""One script for each claim of speed or memory: ours and the peer interleaved in one process."""

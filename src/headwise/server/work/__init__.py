"""Background work: threads, processes, jobs."""

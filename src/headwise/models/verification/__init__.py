"""Is a run right? Judged in float64 and against the loaded model."""

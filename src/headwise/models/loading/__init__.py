"""From a directory, a hub id, a demo or a module to a loaded model."""

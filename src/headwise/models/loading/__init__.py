"""From a directory, a hub id or a module to a loaded model; from text, audio or tensors to its inputs."""

"""The page without a server: in a saved file and in a notebook."""

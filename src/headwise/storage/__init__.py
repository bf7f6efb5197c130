"""Everything written to disk: atomic files and folders, one cache, progress files, and the fingerprints that key what is stored."""

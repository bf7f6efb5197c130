"""What a run offers: datasets, map tiles, writes, files."""

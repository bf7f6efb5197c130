"""Which rows and columns of which parameters belong to a head."""

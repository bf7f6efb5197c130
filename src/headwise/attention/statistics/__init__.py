"""One file a statistic: its definition on the weights, and how it is gathered without them."""

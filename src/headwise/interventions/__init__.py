"""Heads changed: silenced, scaled, tempered, tied, pruned, blinded; in the weights or as the model runs, and saved."""

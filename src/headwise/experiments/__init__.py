"""Sentences about heads: each with its source, an experiment, and a verdict on the model at hand. One file a claim."""

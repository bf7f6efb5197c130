"""Small models that are trained for claims, and what came out: kept as JSON beside the code, so that a card shows without training.

`python -m headwise.experiments.trained NAME` makes a file again.
"""

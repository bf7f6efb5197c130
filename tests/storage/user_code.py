"""Code as a user's own file holds it: it belongs to no installed package."""

FACTOR = 2.0


def scaled(x):
    return x * FACTOR


class Metric:
    def __init__(self, token):
        self.token = token

    def __call__(self, outputs):
        return outputs["logits"][:, -1, self.token]

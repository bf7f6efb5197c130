"""keras 3 on jax: `keras.ops.dot_product_attention`."""

from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends import keras_backend as keras_run
from headwise.conformance.adapters.backends.jax_backend import DTYPES
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions


def build() -> tuple[CallSubject, ...]:
    keras_run.chosen("jax")
    supports = frozenset({"causal", "mask", "bias", "scale", *ABILITIES}) - {"weights", "lse", "offset_by_row", "value_width", "empty"}
    conventions = Conventions(corner="top-left", dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("keras_jax", keras_run.compute, supports, conventions, DTYPES),)


ENTRY = Peer(statement="keras.ops.dot_product_attention of keras 3 on jax.", build=build, needs=("keras", "jax"), documented=("mask_polarity",))

"""keras 3 on jax: `keras.ops.dot_product_attention`."""

from headwise.proof.conventions import Conventions
from headwise.proof.subject import ABILITIES
from headwise.subjects import keras_run
from headwise.subjects.call import CallSubject
from headwise.subjects.jax_bridge import DTYPES
from headwise.subjects.peer import Peer


def build() -> tuple[CallSubject, ...]:
    keras_run.chosen("jax")
    honours = frozenset({"causal", "mask", "bias", "scale", *ABILITIES}) - {"weights", "lse", "offset_by_row", "value_width", "empty"}
    conventions = Conventions(corner="top-left", dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("keras_jax", keras_run.compute, honours, conventions, DTYPES),)


ENTRY = Peer(statement="keras.ops.dot_product_attention of keras 3 on jax.", build=build, needs=("keras", "jax"), says=("mask_polarity",))

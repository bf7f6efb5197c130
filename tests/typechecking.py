"""How annotations are checked while tests run."""

from contextlib import contextmanager

import jaxtyping
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # as static checkers see types: an int may stand where a float is asked for


@contextmanager
def unchecked():
    """headwise as users run it, without the annotations' own errors and without what checking them costs."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)

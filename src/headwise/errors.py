"""Every error that headwise raises on purpose: one tree, each class also the built-in kind that it is.

A message reads "WHAT must RULE, got VALUE. FIX." and names arguments as the caller wrote them.
"""


class HeadwiseError(Exception):
    """The root: `except hw.HeadwiseError` catches all that headwise raises on purpose."""


class ArgumentError(HeadwiseError, ValueError):
    """An argument has a value that the call cannot honour."""


class ArgumentTypeError(HeadwiseError, TypeError):
    """An argument is of the wrong type."""


class ShapeError(ArgumentError):
    """Shapes do not fit together."""


class BackendError(HeadwiseError, RuntimeError):
    """The backend asked for cannot honour this call on this machine."""


class Undecided(HeadwiseError, ArithmeticError):
    """The numbers are not known well enough to prove anything either way."""


class ModelError(HeadwiseError, RuntimeError):
    """A model cannot be opened or run as asked."""


class CheckpointError(ModelError, ValueError):
    """The files of a checkpoint are missing, broken, of a refused kind, or do not fit the configuration."""


class UnseenAttention(ModelError):
    """The model computes attention that does not pass through transformers' attention interface."""


class WritesRefused(ModelError):
    """What a head adds to the output cannot be told apart in this model; the message says why."""


class MissingPackage(HeadwiseError, ImportError):
    """An optional package is needed for this; the message names the extra."""


class FingerprintError(HeadwiseError, TypeError):
    """A value whose content cannot be determined, so that nothing that depends on it may be cached or resumed."""

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


class RequestError(HeadwiseError, RuntimeError):
    """A request to the page's server that is not honoured.

    Attributes:
        status: the HTTP status of the answer.
        kind: what the page reads to tell refusals apart, such as NotFound or RunGone.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class WorkerFailed(HeadwiseError, RuntimeError):
    """A process that worked for the page's server reported an error, or ended without a result.

    Attributes:
        kind: the class of the error in that process.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

"""The errors that headwise raises, in one tree; each class is also a subclass of the built-in exception of its kind."""


class HeadwiseError(Exception):
    """The base class of all errors that headwise raises: `except hw.HeadwiseError` catches every one of them."""


class ArgumentError(HeadwiseError, ValueError):
    """An argument has an invalid value, or one that this call does not support."""


class ArgumentTypeError(HeadwiseError, TypeError):
    """An argument is of the wrong type."""


class ShapeError(ArgumentError):
    """The shapes of arguments do not fit together."""


class BackendError(HeadwiseError, RuntimeError):
    """The chosen backend does not support this call, or cannot run on this machine."""


class EnvironmentVariableError(BackendError):
    """An environment variable that headwise reads has an invalid value."""


class Undecided(HeadwiseError, ArithmeticError):
    """The enclosures of two numbers are too wide to prove that they are equal or that they differ."""


class ModelError(HeadwiseError, RuntimeError):
    """A model cannot be opened, or cannot be run with these inputs or options."""


class CheckpointError(ModelError, ValueError):
    """The files of a checkpoint are missing, corrupt, of an unsupported format, or do not fit its configuration."""


class UnsupportedAdapter(CheckpointError):
    """A LoRA adapter that cannot be read from its files alone: only peft can merge it."""


class UnseenAttention(ModelError):
    """The model computes attention that headwise could not capture."""


class WritesRefused(ModelError):
    """What each head adds to the output cannot be separated in this model; the message says why."""


class MissingPackage(HeadwiseError, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


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


class NotSupported(HeadwiseError, NotImplementedError):
    """A checked implementation declares that it cannot compute a problem: the problem is not tested, and the report lists it."""


class InvalidReturn(ArgumentTypeError):
    """A checked implementation returned neither a tensor, nor an output with weights, nor what `hw.attend` returns."""


class SubjectFailure(HeadwiseError, RuntimeError):
    """A checked implementation raised, timed out, crashed or returned a wrong shape or dtype.

    Attributes:
        rule: name of the rule of a call that it broke, such as "raises" or "hangs".
        mode: how it was called, a `CallMode`.
        problem: the input, where it is known.
    """

    def __init__(self, rule: str, why: str, mode: object = None, problem: object = None) -> None:
        super().__init__(why)
        self.rule, self.mode, self.problem = rule, mode, problem

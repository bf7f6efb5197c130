"""A subject in a process of its own, which may hang or crash while the check goes on. The process is spawned, never forked."""

import io
import os
import pickle
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Literal

import torch

from headwise.conformance.adapters.attention_call import SourceCall
from headwise.conformance.adapters.convention_probe import ResolvedConvention, before_probe
from headwise.conformance.adapters.function_adapter import ResolvedSubject
from headwise.conformance.adapters.resolve import resolve
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.conventions import OURS, Conventions
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.sandbox.watched_subject import WatchedSubject
from headwise.errors import ArgumentError, HeadwiseError, NotSupported, SubjectFailure

STARTUP = 120.0  # seconds for the imports of the process
MOST_TIMEOUTS = 3  # calls of one kind that may hang or crash before calls of that kind are skipped
FATAL = ("hangs", "crashes")


@dataclass(frozen=True, eq=False)
class SubjectInfo:
    """What the process reports of a subject before it is called."""

    name: str
    level: Literal["call", "layer"]
    supports: frozenset[str]
    conventions: Conventions
    dtypes: tuple[torch.dtype, ...]
    device: torch.device
    paths: tuple[str, ...]
    has_source: bool
    cut: Callable[[Any], Any] | None = None


Described = tuple[SubjectInfo, tuple[ResolvedConvention, ...], Mapping[str, str]]

UNUSABLE: Described = (  # a subject that hangs or crashes on every call
    SubjectInfo("unusable", "call", frozenset(), OURS, (torch.float32,), torch.device("cpu"), (), False),
    (),
    {"everything": "it hangs or crashes on the simplest problem"},
)

Kind = tuple[frozenset[str], bool, bool, bool, bool, bool]


def kind_of(problem: AnyProblem, mode: CallMode) -> Kind:
    """What probes that hang or crash alike have in common: the options used, and the mode."""
    grouped = isinstance(problem, Problem) and problem.query.shape[1] != problem.key.shape[1]
    return frozenset(problem.options), mode.weights, mode.training, mode.grad or mode.upstream is not None, grouped, 0 in problem.shape


SIMPLEST: Kind = (frozenset(), False, False, False, False, False)


@dataclass(eq=False)
class RemoteSubject:
    """A subject that another process holds."""

    info: SubjectInfo
    index: int
    process: "SubjectProcess"
    noted: dict[str, Finding] = field(default_factory=dict)
    fatal: dict[frozenset[str], int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The subject's name."""
        return self.info.name

    @property
    def level(self) -> Literal["call", "layer"]:
        """The subject's level."""
        return self.info.level

    @property
    def supports(self) -> frozenset[str]:
        """What the subject supports."""
        return self.info.supports

    @property
    def conventions(self) -> Conventions:
        """The subject's conventions."""
        return self.info.conventions

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """The subject's dtypes."""
        return self.info.dtypes

    @property
    def device(self) -> torch.device:
        """The subject's device."""
        return self.info.device

    @property
    def paths(self) -> tuple[str, ...]:
        """The subject's paths."""
        return self.info.paths

    @property
    def cut(self) -> Callable[[Any], Any] | None:
        """Changes a problem into one that the subject can compute."""
        return self.info.cut

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Have the process compute the problem, and wait as long as a call may take.

        Raises:
            NotSupported: the subject refuses, or calls of this kind have hung or crashed before.
            SubjectFailure: it raises, hangs or crashes.
        """
        if self.info is UNUSABLE[0]:
            raise NotSupported("It hangs or crashes on the simplest problem.")
        options = frozenset(problem.options)
        if any(kind <= options and times >= MOST_TIMEOUTS for kind, times in self.fatal.items()):
            raise NotSupported("Calls of this kind hang or crash.")
        try:
            kind, result, noted = self.process.ask(("attend", self.index, problem, mode))
        except SubjectFailure as failure:
            if failure.rule in FATAL:
                self.fatal[options] = self.fatal.get(options, 0) + 1
            raise SubjectFailure(failure.rule, str(failure), mode) from None
        self.noted |= {rule: finding for rule, finding in noted.items() if rule not in self.noted}
        if kind == "refused":
            raise NotSupported(result)
        if kind == "failed":
            rule, why = result
            raise SubjectFailure(rule, why, mode)
        return result

    @property
    def as_source(self) -> Callable[[Problem, CallMode], SourceCall] | None:
        """The call as Python source, made by the process."""
        return self._source if self.info.has_source else None

    def _source(self, problem: Problem, mode: CallMode) -> SourceCall:
        return self.process.ask(("source", self.index, problem, mode))


class SubjectProcess:
    """A Python process that holds subjects; started again after it was ended."""

    def __init__(self, subject: object, options: Mapping[str, Any], timeout: float) -> None:
        try:
            pickle.dumps(subject)
        except (pickle.PicklingError, AttributeError, TypeError):
            raise ArgumentError(f"With a timeout the subject must be importable, got {subject!r}. Define it at the top of a module.") from None
        if getattr(subject, "__module__", "") == "__main__":
            raise ArgumentError(f"With a timeout the subject must be importable, got {subject!r} of __main__. Move it to a module.")
        self.subject, self.options, self.timeout = subject, dict(options), timeout
        self.running: subprocess.Popen[bytes] | None = None
        self.described: list[Described] = []
        self.probe: tuple[AnyProblem, CallMode] | None = None
        self.skipped: set[Kind] = set()
        self.noted: dict[str, Finding] = {}

    def start(self) -> None:
        """Spawn the process and have it resolve its subjects. Probes on which it hangs or crashes are skipped the next time.

        Raises:
            SubjectFailure: it hangs or crashes on the simplest problem too.
        """
        while True:
            self._spawn()
            try:
                self.described = self._resolved()
                return
            except SubjectFailure as failure:
                if self.probe is None:
                    raise
                problem, mode = self.probe
                self.noted.setdefault(failure.rule, Finding("wrong", problem, str(failure), mode=mode, invariant=failure.rule))
                kind = kind_of(problem, mode)
                if kind == SIMPLEST or kind in self.skipped:
                    raise
                self.skipped.add(kind)

    def _resolved(self) -> list[Described]:
        """The subjects as the process describes them; it announces every probe first."""
        self.probe = None
        kind, result = self._exchange((self.subject, self.options, torch.get_num_threads(), self.skipped), max(STARTUP, self.timeout))
        while kind == "probe":
            self.probe = result
            kind, result = self._receive(self.timeout)
        self.probe = None
        if kind == "error":
            raise result
        return result

    def _spawn(self) -> None:
        child_reads, writes = os.pipe()
        reads, child_writes = os.pipe()
        command = [sys.executable, "-m", "headwise.conformance.sandbox.remote_subject", str(child_reads), str(child_writes)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        null = subprocess.DEVNULL
        self.running = subprocess.Popen(command, pass_fds=(child_reads, child_writes), env=environment, stdin=null, stdout=null, stderr=null)
        os.close(child_reads)
        os.close(child_writes)
        self.writing, self.reading = os.fdopen(writes, "wb"), os.fdopen(reads, "rb")

    def ask(self, message: tuple[Any, ...]) -> Any:
        """Send a message and wait for the answer.

        Raises:
            SubjectFailure: none came in time, or the process crashed.
        """
        if self.running is None:
            self.start()
        return self._exchange(message, self.timeout)

    def _exchange(self, message: tuple[Any, ...], seconds: float) -> Any:
        with suppress(BrokenPipeError):  # that the process has ended shows when its answer is awaited
            send(self.writing, message)
        return self._receive(seconds)

    def _receive(self, seconds: float) -> Any:
        try:
            return receive(self.reading, seconds)
        except TimeoutError:
            self.end()
            raise SubjectFailure("hangs", f"The call did not return within {seconds:g} s.") from None
        except EOFError:
            code = self.running.wait() if self.running else 0
            self.end()
            cause = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise SubjectFailure("crashes", f"The process ended with {cause} during the call.") from None

    def end(self) -> None:
        """End the process, whatever it is doing."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            self.writing.close()
            self.reading.close()
            self.running = None


@contextmanager
def isolated(subject: object, timeout: float | None, options: Mapping[str, Any]) -> Iterator[tuple[ResolvedSubject, ...]]:
    """The resolved subjects: in a process of their own where calls have a time limit, else in this one.

    Args:
        timeout: seconds that a call may take; None for no limit.
        options: further arguments of `resolve`.
    """
    if timeout is None:
        yield resolve(subject, **options)
        return
    process = SubjectProcess(subject, options, timeout)
    try:
        try:
            process.start()
        except SubjectFailure as failure:
            if not process.noted:
                raise ArgumentError(f"The process that imports {subject!r} {failure.rule} before it is called. {failure}") from None
            process.described = [UNUSABLE]
        remotes = [RemoteSubject(info, n, process) for n, (info, _, _) in enumerate(process.described)]
        remotes[0].noted.update(process.noted)
        for remote in remotes:  # what hung or crashed when probed is not tried again
            remote.fatal.update({kind[0]: MOST_TIMEOUTS for kind in process.skipped if kind[0] and not any(kind[1:])})
        yield tuple(ResolvedSubject(remote, *described[1:]) for remote, described in zip(remotes, process.described, strict=True))
    finally:
        process.end()


class Packer(pickle.Pickler):
    """Pickles tensors as their bytes and strides: ten times as fast as torch's own format, which is made for files."""

    def reducer_override(self, obj: object, /) -> Any:
        """How a tensor is pickled."""
        if not isinstance(obj, torch.Tensor):
            return NotImplemented
        tensor = obj.detach().cpu()
        memory = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        return unpacked, (memory.numpy().tobytes(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


def unpacked(memory: bytes, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> torch.Tensor:
    """A tensor from its bytes."""
    if not memory:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(memory), dtype=dtype).as_strided(shape, strides, offset)


def send(pipe: BinaryIO, message: object) -> None:
    """Write a message, preceded by its length."""
    packed = io.BytesIO()
    Packer(packed).dump(message)
    data = packed.getvalue()
    pipe.write(struct.pack("<q", len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO, seconds: float | None = None) -> Any:
    """The next message.

    Raises:
        TimeoutError: it did not come in time.
        EOFError: the other side has closed the pipe.
    """
    end = None if seconds is None else time.monotonic() + seconds
    (length,) = struct.unpack("<q", _read(pipe, 8, end))
    return pickle.loads(_read(pipe, length, end))


def _read(pipe: BinaryIO, count: int, end: float | None) -> bytes:
    parts = []
    while count:
        if not select.select([pipe], [], [], None if end is None else max(end - time.monotonic(), 0))[0]:
            raise TimeoutError
        part = os.read(pipe.fileno(), min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve(reading: BinaryIO, writing: BinaryIO) -> None:
    """What the process does: resolve the subjects, then answer until the pipe is closed."""
    with tempfile.TemporaryFile() as printed:
        for output in (1, 2):
            os.dup2(printed.fileno(), output)
        subject, options, threads, skipped = receive(reading)
        torch.set_num_threads(threads)

        def announce(problem: AnyProblem, mode: CallMode) -> None:
            if kind_of(problem, mode) in skipped:
                raise NotSupported("It hangs or crashes.")
            send(writing, ("probe", (problem, mode)))

        before_probe.append(announce)
        try:
            found = resolve(subject, **options)
        except HeadwiseError as error:
            send(writing, ("error", error))
            return
        before_probe.remove(announce)
        watched = [WatchedSubject(one.subject) for one in found]
        send(writing, ("found", [(_info(one), one.conventions, dict(one.not_tested)) for one in found]))
        while True:
            try:
                request, index, problem, mode = receive(reading)
            except EOFError:
                return
            if request == "source":
                send(writing, _source_of(found[index], problem, mode))
            else:
                before = os.fstat(printed.fileno()).st_size
                kind, result = _attended(watched[index], problem, mode)
                if os.fstat(printed.fileno()).st_size > before:
                    watched[index].note("prints", problem, mode, "It wrote to the terminal.")
                send(writing, (kind, result, watched[index].noted))


def _source_of(found: ResolvedSubject, problem: Problem, mode: CallMode) -> SourceCall:
    as_source: Callable[[Problem, CallMode], SourceCall] = getattr(found.subject, "as_source")  # noqa: B009
    return as_source(problem, mode)


def _attended(watched: WatchedSubject, problem: AnyProblem, mode: CallMode) -> tuple[str, Any]:
    try:
        answer = watched.attend(problem, mode)
    except NotSupported as refusal:
        return "refused", str(refusal)
    except SubjectFailure as failure:
        return "failed", (failure.rule, str(failure))
    detached = {name: x.detach() for name in ("output", "weights", "lse", "writes") if (x := getattr(answer, name)) is not None}
    return "answer", replace(answer, **detached, gradients={name: x.detach() for name, x in answer.gradients.items()})


def _info(found: ResolvedSubject) -> SubjectInfo:
    subject = found.subject
    described = {name: getattr(subject, name) for name in SubjectInfo.__dataclass_fields__ if name not in ("has_source", "cut")}
    return SubjectInfo(**described, cut=getattr(subject, "cut", None), has_source=getattr(subject, "as_source", None) is not None)


if __name__ == "__main__":
    from headwise.conformance.sandbox import remote_subject

    remote_subject.serve(os.fdopen(int(sys.argv[1]), "rb", buffering=0), os.fdopen(int(sys.argv[2]), "wb"))

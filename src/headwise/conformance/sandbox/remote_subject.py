"""A subject in a process of its own: it may hang or die, and the rest goes on. The process is spawned, never forked."""

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

from headwise.conformance.adapters.attention_call import Spelling
from headwise.conformance.adapters.convention_probe import gates
from headwise.conformance.adapters.find import find
from headwise.conformance.adapters.function import Found
from headwise.conformance.adapters.subject import Refused
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import OURS, Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.report.finding import Finding
from headwise.conformance.sandbox.watched_subject import Misbehaved, Watched
from headwise.errors import ArgumentError, HeadwiseError

STARTING = 120.0  # seconds for the imports of the process
PATIENCE_WITH_HANGING = 3  # calls of one kind that may hang or die before the kind is left alone


@dataclass(frozen=True, eq=False)
class Card:
    """What the process tells of a subject before it is asked."""

    name: str
    level: Literal["call", "layer"]
    honours: frozenset[str]
    conventions: Conventions
    dtypes: tuple[torch.dtype, ...]
    device: torch.device
    paths: tuple[str, ...]
    spells: bool
    cut: Callable[[Any], Any] | None = None


NOBODY: tuple[Card, tuple, Mapping[str, str]] = (  # who hangs or dies whatever is asked
    Card("nobody", "call", frozenset(), OURS, (torch.float32,), torch.device("cpu"), (), False),
    (),
    {"everything": "it hangs or dies on the plainest problem"},
)

Kind = tuple[frozenset[str], bool, bool, bool, bool, bool]


def kind_of(problem: Problem | LayerProblem, how: How) -> Kind:
    """What probes have in common that hang or die alike: the words that are used, and how."""
    grouped = isinstance(problem, Problem) and problem.query.shape[1] != problem.key.shape[1]
    return frozenset(problem.options), how.weights, how.training, how.grad or how.upstream is not None, grouped, 0 in problem.shape


PLAINEST: Kind = (frozenset(), False, False, False, False, False)


@dataclass(eq=False)
class Remote:
    """A subject as seen from here."""

    card: Card
    index: int
    process: "Process"
    noted: dict[str, Finding] = field(default_factory=dict)
    hung: dict[frozenset[str], int] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name in Card.__dataclass_fields__:
            return getattr(self.card, name)
        raise AttributeError(name)

    def attend(self, problem: Problem | LayerProblem, how: How = PLAINLY) -> Answer:
        """Ask the process, and wait as long as a call may take.

        Raises:
            Refused: the subject refuses, or calls of this kind have hung before.
            Misbehaved: it raises, hangs or dies.
        """
        if self.card is NOBODY[0]:
            raise Refused("it hangs or dies on the plainest problem.")
        options = frozenset(problem.options)
        if any(kind <= options and times >= PATIENCE_WITH_HANGING for kind, times in self.hung.items()):
            raise Refused("calls of this kind hang or die.")
        try:
            kind, result, noted = self.process.ask(("attend", self.index, problem, how))
        except Misbehaved as odd:
            if odd.manner in ("hangs", "dies"):
                self.hung[options] = self.hung.get(options, 0) + 1
            raise Misbehaved(odd.manner, str(odd), how) from None
        self.noted |= {manner: finding for manner, finding in noted.items() if manner not in self.noted}
        if kind == "refused":
            raise Refused(result)
        if kind == "misbehaved":
            raise Misbehaved(*result, how)
        return result

    @property
    def spelled(self) -> Any:
        """How a call is spelled, asked of the process too."""
        return self._spell if self.card.spells else None

    def _spell(self, problem: Problem, how: How) -> Spelling:
        return self.process.ask(("spell", self.index, problem, how))


class Process:
    """A Python that holds subjects; started again after it was ended."""

    def __init__(self, subject: Any, near: Mapping[str, Any], timeout: float) -> None:
        try:
            pickle.dumps(subject)
        except (pickle.PicklingError, AttributeError, TypeError):
            raise ArgumentError(f"timeout must come with a subject that can be imported, got {subject!r}. Define it at the top of a module.") from None
        if getattr(subject, "__module__", "") == "__main__":
            raise ArgumentError(f"timeout must come with a subject that can be imported, got {subject!r} of __main__. Move it to a module.")
        self.subject, self.near, self.timeout = subject, dict(near), timeout
        self.running: subprocess.Popen | None = None
        self.cards: list[tuple[Card, tuple, Mapping[str, str]]] = []
        self.probe: tuple[Any, How] | None = None
        self.avoided: set[Kind] = set()
        self.noted: dict[str, Finding] = {}

    def start(self) -> None:
        """Spawn it, and have it find its subjects. Probes on which it hangs or dies are left out the next time.

        Raises:
            Misbehaved: it does so on the plainest of all, too.
        """
        while True:
            self._spawn()
            try:
                self.cards = self._found()
                return
            except Misbehaved as odd:
                if self.probe is None:
                    raise
                problem, how = self.probe
                self.noted.setdefault(odd.manner, Finding("wrong", problem, str(odd), how=how, invariant=odd.manner))
                kind = kind_of(problem, how)
                if kind == PLAINEST or kind in self.avoided:
                    raise
                self.avoided.add(kind)

    def _found(self) -> list[tuple[Card, tuple, Mapping[str, str]]]:
        """What the process says of its subjects, after telling of every probe that it makes."""
        self.probe = None
        kind, result = self._exchange((self.subject, self.near, torch.get_num_threads(), self.avoided), max(STARTING, self.timeout))
        while kind == "probe":
            self.probe = result
            kind, result = self._hear(self.timeout)
        self.probe = None
        if kind == "error":
            raise result
        return result

    def _spawn(self) -> None:
        there, to_child = os.pipe()
        from_child, here = os.pipe()
        command = [sys.executable, "-m", "headwise.conformance.sandbox.remote_subject", str(there), str(here)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        nowhere = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.running = subprocess.Popen(command, pass_fds=(there, here), env=environment, **nowhere)
        os.close(there)
        os.close(here)
        self.writing, self.reading = os.fdopen(to_child, "wb"), os.fdopen(from_child, "rb")

    def ask(self, message: Any) -> Any:
        """Send a message and wait for the answer.

        Raises:
            Misbehaved: none came in time, or the process died.
        """
        if self.running is None:
            self.start()
        return self._exchange(message, self.timeout)

    def _exchange(self, message: Any, seconds: float) -> Any:
        with suppress(BrokenPipeError):  # whoever is gone is found out by listening
            send(self.writing, message)
        return self._hear(seconds)

    def _hear(self, seconds: float) -> Any:
        try:
            return receive(self.reading, seconds)
        except TimeoutError:
            self.end()
            raise Misbehaved("hangs", f"No answer came within {seconds:g} s.") from None
        except EOFError:
            code = self.running.wait() if self.running else 0
            self.end()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise Misbehaved("dies", f"The process ended with {how} during the call.") from None

    def end(self) -> None:
        """End it, whatever it is doing."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            self.writing.close()
            self.reading.close()
            self.running = None


@contextmanager
def distant(subject: Any, timeout: float | None, near: Mapping[str, Any]) -> Iterator[tuple[Found, ...]]:
    """The subjects, in a process of their own where calls may take only so long; else right here."""
    if timeout is None:
        yield find(subject, **near)
        return
    process = Process(subject, near, timeout)
    try:
        try:
            process.start()
        except Misbehaved as odd:
            if not process.noted:
                raise ArgumentError(f"subject must be found within {STARTING:g} s, got {subject!r}, at whose import the process {odd.manner}. {odd}") from None
            process.cards = [NOBODY]
        founds = tuple(Found(Remote(card, n, process), stated, lacks) for n, (card, stated, lacks) in enumerate(process.cards))
        founds[0].subject.noted.update(process.noted)
        for found in founds:  # what hung or died among the probes is not tried again
            found.subject.hung.update({kind[0]: PATIENCE_WITH_HANGING for kind in process.avoided if kind[0] and not any(kind[1:])})
        yield founds
    finally:
        process.end()


class Packer(pickle.Pickler):
    """Tensors as their bytes and strides: a tenth of the time that torch's own way takes, which is made for files."""

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor):
            return NotImplemented
        tensor = thing.detach().cpu()
        memory = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        return unpacked, (memory.numpy().tobytes(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


def unpacked(memory: bytes, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> torch.Tensor:
    """A tensor from its bytes."""
    if not memory:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(memory), dtype=dtype).as_strided(shape, strides, offset)


def send(pipe: BinaryIO, message: Any) -> None:
    """A message with its length before it."""
    packed = io.BytesIO()
    Packer(packed).dump(message)
    data = packed.getvalue()
    pipe.write(struct.pack("<q", len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO, seconds: float | None = None) -> Any:
    """The next message.

    Raises:
        TimeoutError: it did not come in time.
        EOFError: the other side is gone.
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
    """What the process does: find the subjects, then answer until nobody asks."""
    with tempfile.TemporaryFile() as words:
        for output in (1, 2):
            os.dup2(words.fileno(), output)
        subject, near, threads, avoided = receive(reading)
        torch.set_num_threads(threads)

        def gate(problem: Any, how: How) -> None:
            if kind_of(problem, how) in avoided:
                raise Refused("it hangs or dies.")
            send(writing, ("probe", (problem, how)))

        gates.append(gate)
        try:
            founds = find(subject, **near)
        except HeadwiseError as error:
            send(writing, ("error", error))
            return
        gates.remove(gate)
        watched = [Watched(found.subject) for found in founds]
        send(writing, ("found", [(_card(found), found.conventions, dict(found.not_tested)) for found in founds]))
        while True:
            try:
                what, index, problem, how = receive(reading)
            except EOFError:
                return
            if what == "spell":
                send(writing, founds[index].subject.spelled(problem, how))
            else:
                before = os.fstat(words.fileno()).st_size
                kind, result = _attended(watched[index], problem, how)
                if os.fstat(words.fileno()).st_size > before:
                    watched[index].note("prints", problem, how, "It wrote to the terminal.")
                send(writing, (kind, result, watched[index].noted))


def _attended(watched: Watched, problem: Any, how: How) -> tuple[str, Any]:
    try:
        answer = watched.attend(problem, how)
    except Refused as refusal:
        return "refused", str(refusal)
    except Misbehaved as odd:
        return "misbehaved", (odd.manner, str(odd))
    slim = {name: x.detach() for name in ("output", "weights", "lse", "writes") if (x := getattr(answer, name)) is not None}
    return "answer", replace(answer, **slim, gradients={name: x.detach() for name, x in answer.gradients.items()})


def _card(found: Found) -> Card:
    subject = found.subject
    told = {name: getattr(subject, name) for name in Card.__dataclass_fields__ if name not in ("spells", "cut")}
    return Card(**told, cut=getattr(subject, "cut", None), spells=getattr(subject, "spelled", None) is not None)


if __name__ == "__main__":
    from headwise.conformance.sandbox import remote_subject as remote

    remote.serve(os.fdopen(int(sys.argv[1]), "rb", buffering=0), os.fdopen(int(sys.argv[2]), "wb"))

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Literal

import torch

from headwise.errors import ArgumentError, HeadwiseError
from headwise.proof.answer import PLAINLY, Answer, How
from headwise.proof.conventions import Conventions
from headwise.proof.finding import Finding
from headwise.proof.layer_problem import LayerProblem
from headwise.proof.problem import Problem
from headwise.proof.subject import Refused
from headwise.subjects.call import Spelling
from headwise.subjects.find import find
from headwise.subjects.function import Found
from headwise.subjects.watch import Misbehaved, Watched

STARTING = 120.0  # seconds for the imports of the process and for the probes
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

    def start(self) -> None:
        """Spawn it, and have it find its subjects."""
        there, to_child = os.pipe()
        from_child, here = os.pipe()
        command = [sys.executable, "-m", "headwise.subjects.remote", str(there), str(here)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        nowhere = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.running = subprocess.Popen(command, pass_fds=(there, here), env=environment, **nowhere)
        os.close(there)
        os.close(here)
        self.writing, self.reading = os.fdopen(to_child, "wb"), os.fdopen(from_child, "rb")
        kind, result = self._exchange((self.subject, self.near, torch.get_num_threads()), max(STARTING, self.timeout))
        if kind == "error":
            raise result
        self.cards = result

    def ask(self, message: Any) -> Any:
        """Send a message and wait for the answer.

        Raises:
            Misbehaved: none came in time, or the process died.
        """
        if self.running is None:
            self.start()
        return self._exchange(message, self.timeout)

    def _exchange(self, message: Any, seconds: float) -> Any:
        try:
            send(self.writing, message)
            return receive(self.reading, seconds)
        except TimeoutError:
            self.end()
            raise Misbehaved("hangs", f"No answer came within {seconds:g} s.") from None
        except (EOFError, BrokenPipeError):
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
            raise ArgumentError(f"subject must answer the first small problems, got one of {subject!r} that {odd.manner}. {odd}") from None
        yield tuple(Found(Remote(card, n, process), stated, lacks) for n, (card, stated, lacks) in enumerate(process.cards))
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
        subject, near, threads = receive(reading)
        torch.set_num_threads(threads)
        try:
            founds = find(subject, **near)
        except HeadwiseError as error:
            send(writing, ("error", error))
            return
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
    told = {name: getattr(subject, name) for name in Card.__dataclass_fields__ if name != "spells"}
    return Card(**told, spells=getattr(subject, "spelled", None) is not None)


if __name__ == "__main__":
    from headwise.subjects import remote

    remote.serve(os.fdopen(int(sys.argv[1]), "rb", buffering=0), os.fdopen(int(sys.argv[2]), "wb"))

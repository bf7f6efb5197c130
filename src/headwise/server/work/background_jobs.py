"""Work that takes long: told of while it runs, and called off when nobody wants it any more."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwise.errors import HeadwiseError
from headwise.server.responses import Denied
from headwise.server.state.sessions import Hub

AT_ONCE = 4
KEPT = 32  # finished jobs whose results can still be asked for
LINE = 1 << 28  # bytes of one line of a worker


@dataclass(eq=False)
class Job:
    """One piece of work.

    Attributes:
        state: running, done, failed or cancelled.
        stop: set when it is called off, for work in a thread to look at.
    """

    id: str
    session: str
    kind: str
    state: str = "running"
    done: int = 0
    of: int | None = None
    doing: str = ""
    result: Any = None
    error: dict[str, str] | None = None
    begun: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)
    task: asyncio.Task | None = None

    def told(self) -> dict[str, Any]:
        """What an event says of it."""
        names = ("id", "kind", "state", "done", "of", "doing", "error")
        return {name: getattr(self, name) for name in names} | {"seconds": round(time.monotonic() - self.begun, 1)}


class Jobs:
    """All jobs of a server."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.jobs: dict[str, Job] = {}

    def begin(self, session: str, kind: str, work: Callable[[Job], Awaitable[Any]]) -> Job:
        """Begin a piece of work.

        Raises:
            Denied: there are too many.
        """
        if sum(job.state == "running" for job in self.jobs.values()) >= AT_ONCE:
            raise Denied(429, "Busy", f"jobs must be at most {AT_ONCE} at once, got one more. Wait for one to end, or cancel it.")
        job = Job(f"j-{secrets.token_urlsafe(12)}", session, kind)
        self.jobs[job.id] = job
        for old in [old for old in self.jobs.values() if old.state != "running"][:-KEPT]:
            del self.jobs[old.id]
        job.task = asyncio.get_running_loop().create_task(self._see_through(job, work))
        return job

    def get(self, id: str) -> Job:
        """A job.

        Raises:
            Denied: there is none of this id.
        """
        if id not in self.jobs:
            raise Denied(404, "NotFound", f"job must be one that was begun, got {id[:40]!r}. Begin it again.")
        return self.jobs[id]

    def cancel(self, job: Job) -> None:
        """Call a job off: its process is ended, its thread stops at the next step."""
        job.stop.set()
        if job.state == "running" and job.task is not None:
            job.task.cancel()

    def leave(self, session: str) -> None:
        """Call off what a session had begun, and forget it."""
        for job in [job for job in self.jobs.values() if job.session == session]:
            self.cancel(job)
            if job.state != "running":
                del self.jobs[job.id]

    def tell(self, job: Job, **changes: Any) -> None:
        """Note how far a job is, and tell its session; from any thread."""
        for name, value in changes.items():
            setattr(job, name, value)
        self.hub.tell("job", job.told(), job.session)

    async def _see_through(self, job: Job, work: Callable[[Job], Awaitable[Any]]) -> None:
        try:
            result = await work(job)
            job.state, job.result = ("cancelled", None) if job.stop.is_set() else ("done", result)
        except (asyncio.CancelledError, CalledOff):
            job.state = "cancelled"
        except HeadwiseError as error:
            job.state, job.error = "failed", {"kind": getattr(error, "kind", type(error).__name__), "message": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever happens in a job, the page is told
            job.state, job.error = "failed", {"kind": type(error).__name__, "message": f"the job must end well, got {type(error).__name__}: {error}"}
        self.tell(job)


class CalledOff(Exception):
    """Raised in the thread of a job that nobody wants any more."""


class WorkerFailed(HeadwiseError, RuntimeError):
    """A worker said what went wrong."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


async def in_process(asked: Mapping[str, Any], tell: Callable[[Mapping[str, Any]], None]) -> Any:
    """Have a worker do it; when this is cancelled, the worker and its own processes are ended.

    Raises:
        WorkerFailed: the worker said what went wrong, or ended without a word.
    """
    command = [sys.executable, "-m", "headwise.server.work.worker_process"]
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=nothing, limit=LINE, start_new_session=True)
    try:
        process.stdin.write(json.dumps(dict(asked)).encode() + b"\n")  # pyright: ignore[reportOptionalMemberAccess]
        async for line in process.stdout:  # pyright: ignore[reportOptionalIterable]
            words = json.loads(line)
            if "result" in words:
                return words["result"]
            if "error" in words:
                raise WorkerFailed(words["error"]["kind"], words["error"]["message"])
            tell(words)
        raise WorkerFailed("WorkerFailed", f"a job must answer before it ends, got exit code {await process.wait()}. Try again.")
    finally:
        _end(process)
        await process.wait()


def _end(process: asyncio.subprocess.Process) -> None:
    """The worker and all that it has started: they are a group of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

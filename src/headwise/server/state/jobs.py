"""Jobs: work that takes long, whose progress is reported while it runs, and which is cancelled when nobody wants it any more."""

import asyncio
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from headwise.errors import HeadwiseError, RequestError
from headwise.server.state.sessions import Sessions

MAX_RUNNING = 4
MAX_FINISHED = 32  # finished jobs whose results can still be requested


@dataclass(eq=False)
class Job:
    """One piece of work.

    Attributes:
        state: running, done, failed or cancelled.
        done: steps that are finished, of `of`.
        doing: the step that is being worked on.
        stop: set when the job is cancelled, for work in a thread to look at.
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
    task: "asyncio.Task[None] | None" = None

    def status(self) -> dict[str, Any]:
        """The data of an event about this job."""
        names = ("id", "kind", "state", "done", "of", "doing", "error")
        return {name: getattr(self, name) for name in names} | {"seconds": round(time.monotonic() - self.begun, 1)}


class JobCancelled(Exception):
    """Raised in the thread of a job that nobody wants any more."""


class Jobs:
    """All jobs of a server."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.jobs: dict[str, Job] = {}

    def begin(self, session: str, kind: str, work: Callable[[Job], Awaitable[object]]) -> Job:
        """Begin a job.

        Raises:
            RequestError: too many are running.
        """
        if sum(job.state == "running" for job in self.jobs.values()) >= MAX_RUNNING:
            raise RequestError(429, "Busy", f"At most {MAX_RUNNING} jobs can run at once. Wait for one to end, or cancel it.")
        job = Job(f"j-{secrets.token_urlsafe(12)}", session, kind)
        self.jobs[job.id] = job
        for old in [old for old in self.jobs.values() if old.state != "running"][:-MAX_FINISHED]:
            del self.jobs[old.id]
        job.task = asyncio.get_running_loop().create_task(self._run(job, work))
        return job

    def get(self, id: str) -> Job:
        """A job.

        Raises:
            RequestError: there is none of this id.
        """
        if id not in self.jobs:
            raise RequestError(404, "NotFound", f"There is no job {id[:40]!r}. Begin it again.")
        return self.jobs[id]

    def cancel(self, job: Job) -> None:
        """Cancel a job: its process is ended, its thread stops at the next step."""
        job.stop.set()
        if job.state == "running" and job.task is not None:
            job.task.cancel()

    def leave(self, session: str) -> None:
        """Cancel and forget the jobs of a session."""
        for job in [job for job in self.jobs.values() if job.session == session]:
            self.cancel(job)
            if job.state != "running":
                del self.jobs[job.id]

    def report(self, job: Job, **changes: object) -> None:
        """Note how far a job is, and send that to its session; from any thread."""
        for name, value in changes.items():
            setattr(job, name, value)
        self.sessions.publish("job", job.status(), job.session)

    async def _run(self, job: Job, work: Callable[[Job], Awaitable[object]]) -> None:
        try:
            result = await work(job)
            job.state, job.result = ("cancelled", None) if job.stop.is_set() else ("done", result)
        except (asyncio.CancelledError, JobCancelled):
            job.state = "cancelled"
        except HeadwiseError as error:
            job.state, job.error = "failed", {"kind": getattr(error, "kind", type(error).__name__), "message": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever happens in a job, the page is told
            job.state, job.error = "failed", {"kind": type(error).__name__, "message": f"The job failed with {type(error).__name__}: {error}"}
        self.report(job)

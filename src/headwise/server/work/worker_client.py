"""Run work in a process of its own, which is ended when the work is cancelled."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from headwise.errors import WorkerFailed

MAX_LINE = 1 << 28  # bytes of one line of a worker


async def run_in_process(request: Mapping[str, Any], on_progress: Callable[[Mapping[str, Any]], None]) -> Any:
    """The result of a request to a worker process; when this is cancelled, the worker and its own processes are ended.

    Args:
        request: as `worker_process` takes it.
        on_progress: called with every report of progress.

    Raises:
        WorkerFailed: the worker reported an error, or ended without a result.
    """
    command = [sys.executable, "-m", "headwise.server.work.worker_process"]
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=nothing, limit=MAX_LINE, start_new_session=True)
    try:
        process.stdin.write(json.dumps(dict(request)).encode() + b"\n")  # pyright: ignore[reportOptionalMemberAccess]
        async for line in process.stdout:  # pyright: ignore[reportOptionalIterable]
            message = json.loads(line)
            if "result" in message:
                return message["result"]
            if "error" in message:
                raise WorkerFailed(message["error"]["kind"], message["error"]["message"])
            on_progress(message)
        raise WorkerFailed("WorkerFailed", f"The process of this job ended without a result, with exit code {await process.wait()}. Try again.")
    finally:
        _kill(process)
        await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    """End the worker and everything that it has started: they are a process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

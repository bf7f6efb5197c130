"""The application: routes, files, errors, and what begins and ends with the server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from headwise.errors import HeadwiseError
from headwise.server.guard import Guard
from headwise.server.responses import Denied, refusal, said
from headwise.server.routes import about, edits, runs
from headwise.server.routes import jobs as job_routes
from headwise.server.state.app_state import Desk, Settings
from headwise.server.work.thread_pool import Work

KINDS = {".js": "text/javascript", ".css": "text/css", ".png": "image/png", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".json": "application/json"}


def application(settings: Settings) -> tuple[Guard, Desk]:
    """The server as an ASGI application, behind its guard; and its desk.

    Example:
        >>> guard, desk = application(Settings(models=[], token="secret"))
        >>> desk.library.entries()
        []
    """
    desk = Desk(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        desk.work, desk.hub.loop = Work(), asyncio.get_running_loop()
        sweeping = asyncio.create_task(desk.hub.keep_sweeping())
        desk.library.start()
        try:
            yield
        finally:
            desk.hub.closing = True
            sweeping.cancel()
            for job in list(desk.jobs.jobs.values()):
                desk.jobs.cancel(job)
            await asyncio.gather(*(job.task for job in desk.jobs.jobs.values() if job.task is not None), return_exceptions=True)

    every = [*about.routes(desk), *runs.routes(desk), *edits.routes(desk), *job_routes.routes(desk), Route("/", _page), Route("/static/{path:path}", _file)]
    handlers = {HeadwiseError: _refused, HTTPException: _unknown, Exception: _broken}
    app = Starlette(routes=every, lifespan=lifespan, exception_handlers=handlers)  # pyright: ignore[reportArgumentType]
    return Guard(app, settings.hosts, settings.port, settings.any_address, settings.token), desk


def static() -> Path:
    """The folder of the page's files."""
    return Path(str(files("headwise"))) / "frontend"


async def _page(request: Request) -> Response:
    return FileResponse(static() / "index.html", media_type="text/html", headers={"Cache-Control": "no-cache"})


async def _file(request: Request) -> Response:
    """A file of the page, of a kind that a browser needs, and from nowhere else."""
    folder = static().resolve()
    path = (folder / request.path_params["path"]).resolve()
    kind = KINDS.get(path.suffix)
    if kind is None or not path.is_relative_to(folder) or "node_modules" in path.parts or not path.is_file():
        raise Denied(404, "NotFound", f"a file must be one of the page's, got {request.path_params['path'][:80]!r}.")
    return FileResponse(path, media_type=kind, headers={"Cache-Control": "no-cache"})


async def _refused(request: Request, error: HeadwiseError) -> Response:
    return refusal(error)


async def _unknown(request: Request, error: HTTPException) -> Response:
    told = f"a path must be one that the server knows, got {request.method} {request.url.path[:120]}. See the README beside the server's code."
    return said({"error": {"kind": "NotFound", "message": told}}, error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    """A fault of ours: it is said, and the server goes on."""
    return said({"error": {"kind": type(error).__name__, "message": f"the server must answer, got {type(error).__name__}: {error}. Please report this."}}, 500)

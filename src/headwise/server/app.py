"""The ASGI application: its routes, files and error handlers, and what starts and ends with the server."""

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

from headwise.errors import HeadwiseError, RequestError
from headwise.server.guard import Guard
from headwise.server.responses import error_response, json_response
from headwise.server.routes import about, edits, jobs, runs
from headwise.server.state.app_state import AppState, ServerSettings
from headwise.server.work.thread_pools import ThreadPools

MEDIA_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".json": "application/json",
}


def application(settings: ServerSettings) -> tuple[Guard, AppState]:
    """The server as an ASGI application behind its guard, and the state that it holds.

    Example:
        >>> guard, state = application(ServerSettings(models=[], token="secret"))
        >>> state.models.entries()
        []
    """
    state = AppState(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        state.threads, state.sessions.loop = ThreadPools(), asyncio.get_running_loop()
        sweeper = asyncio.create_task(state.sessions.sweep_regularly())
        state.models.start()
        try:
            yield
        finally:
            state.sessions.closing = True
            sweeper.cancel()
            for job in list(state.jobs.jobs.values()):
                state.jobs.cancel(job)
            await asyncio.gather(*(job.task for job in state.jobs.jobs.values() if job.task is not None), return_exceptions=True)

    routes = [*about.routes(state), *runs.routes(state), *edits.routes(state), *jobs.routes(state), Route("/", _page), Route("/static/{path:path}", _file)]
    handlers = {HeadwiseError: _headwise_error, HTTPException: _no_route, Exception: _internal_error}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)  # pyright: ignore[reportArgumentType]
    return Guard(app, settings.hosts, settings.port, settings.any_address, settings.token), state


def frontend_folder() -> Path:
    """The folder of the page's files."""
    return Path(str(files("headwise"))) / "frontend"


async def _page(request: Request) -> Response:
    return FileResponse(frontend_folder() / "index.html", media_type="text/html", headers={"Cache-Control": "no-cache"})


async def _file(request: Request) -> Response:
    """One of the page's files, of a type that a browser needs; nothing outside the folder."""
    name = request.path_params["path"]
    folder = frontend_folder().resolve()
    media_type = MEDIA_TYPES.get(Path(name).suffix)
    path = None if media_type is None or "\0" in name else (folder / name).resolve()
    if path is None or not path.is_relative_to(folder) or "node_modules" in path.parts or not path.is_file():
        raise RequestError(404, "NotFound", f"The page has no file {name[:80]!r}.")
    return FileResponse(path, media_type=media_type, headers={"Cache-Control": "no-cache"})


async def _headwise_error(request: Request, error: HeadwiseError) -> Response:
    return error_response(error)


async def _no_route(request: Request, error: HTTPException) -> Response:
    message = f"The server has no route {request.method} {request.url.path[:120]}. Its README lists them."
    return json_response({"error": {"kind": "NotFound", "message": message}}, error.status_code)


async def _internal_error(request: Request, error: Exception) -> Response:
    """A bug of ours: report it to the page, and keep serving."""
    message = f"The server failed to answer: {type(error).__name__}: {error}. Please report this."
    return json_response({"error": {"kind": type(error).__name__, "message": message}}, 500)

"""The server without a socket: requests are handed to the application in this process. For the notebook widget and for saved files."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from headwise.server.app import application
from headwise.server.serve import new_token
from headwise.server.state.app_state import ServerSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

    from headwise.models.model import Model

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    """A response.

    Attributes:
        type: of the content, without parameters.
    """

    status: int
    type: str
    body: bytes

    @property
    def data(self) -> Any:
        """The body read as JSON."""
        return json.loads(self.body)


class InProcessServer:
    """A server in a thread of its own, whose requests are method calls.

    Args:
        on_event: called with the name and data of every event, in that thread.
    """

    def __init__(self, settings: ServerSettings, on_event: Callable[[str, Any], None] = lambda name, data: None) -> None:
        self.token, self.on_event = settings.token, on_event
        self.app, self.state = application(settings)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="headwise-page", daemon=True)
        self.thread.start()
        self.lifespan = self._call(_Lifespan.start(self.app.app))

    def request(self, method: str, path: str, body: object = None, seconds: float | None = None) -> Reply:
        """Send a request, and wait for the response."""
        return self._call(self._request(method, path, body), seconds)

    def request_later(self, method: str, path: str, body: object, then: Callable[[Reply], None]) -> None:
        """Send a request; `then` is called with the response, in the server's thread."""
        future = asyncio.run_coroutine_threadsafe(self._request(method, path, body), self.loop)
        future.add_done_callback(lambda done: then(done.result()))

    def session(self) -> str:
        """A new session, whose events go to `on_event`; it lives until `close`."""
        id = self.request("POST", "/api/sessions").data["session"]
        asyncio.run_coroutine_threadsafe(self._forward_events(id), self.loop)
        return id

    def close(self) -> None:
        """End the server, and free what it held."""
        self.state.sessions.close()
        self._call(self.lifespan.end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    async def _forward_events(self, id: str) -> None:
        async for event in self.state.sessions.stream(self.state.sessions.get(id)):
            lines = dict(line.split(": ", 1) for line in event.decode().splitlines() if ": " in line and not line.startswith(":"))
            if "event" in lines:
                self.on_event(lines["event"], json.loads(lines["data"]))

    async def _request(self, method: str, path: str, body: object) -> Reply:
        path_only, _, query = path.partition("?")
        headers = [(b"host", b"127.0.0.1"), (b"x-headwise-token", self.token.encode())]
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": unquote(path_only)}
        scope |= {
            "raw_path": path_only.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "server": ("127.0.0.1", None),
            "client": None,
        }
        sent: list[Message] = []
        content = b"" if body is None else json.dumps(body).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: "Message") -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        kind = dict(sent[0]["headers"]).get(b"content-type", b"").decode().partition(";")[0]
        return Reply(sent[0]["status"], kind, b"".join(message.get("body", b"") for message in sent[1:]))


class _Lifespan:
    """The application's lifespan, started and ended from outside."""

    def __init__(self, app: "ASGIApp") -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.outgoing: asyncio.Queue[Any] = asyncio.Queue()
        self.running = asyncio.ensure_future(app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self.incoming.get, self.outgoing.put))  # pyright: ignore[reportArgumentType]

    @classmethod
    async def start(cls, app: "ASGIApp") -> "_Lifespan":
        lifespan = cls(app)
        await lifespan.incoming.put({"type": "lifespan.startup"})
        await lifespan.outgoing.get()
        return lifespan

    async def end(self) -> None:
        await self.incoming.put({"type": "lifespan.shutdown"})
        await self.outgoing.get()
        await self.running


def in_process_server(models: "Sequence[str | Model]", on_event: Callable[[str, Any], None] = lambda name, data: None) -> InProcessServer:
    """A server for these models, given by name or opened."""
    return InProcessServer(ServerSettings(models, new_token()), on_event)

"""The server without a socket: requests are handed to the application in this process. For the notebook widget and for files."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from headwise.server.app import application
from headwise.server.serve import new_token
from headwise.server.state.app_state import Settings


@dataclass(frozen=True)
class Reply:
    """An answer.

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


class Inside:
    """A server in a thread of its own, asked by calling it.

    Args:
        listener: told of every event, by name and data, in that thread.
    """

    def __init__(self, settings: Settings, listener: Callable[[str, Any], None] = lambda name, data: None) -> None:
        self.token, self.listener = settings.token, listener
        self.app, self.desk = application(settings)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="headwise-page", daemon=True)
        self.thread.start()
        self.life = self._call(_Life.begin(self.app.app))

    def ask(self, method: str, path: str, body: Any = None, seconds: float | None = None) -> Reply:
        """Ask, and wait for the answer."""
        return self._call(self._asked(method, path, body), seconds)

    def later(self, method: str, path: str, body: Any, then: Callable[[Reply], None]) -> None:
        """Ask; `then` is called with the answer, in the server's thread."""
        future = asyncio.run_coroutine_threadsafe(self._asked(method, path, body), self.loop)
        future.add_done_callback(lambda done: then(done.result()))

    def session(self) -> str:
        """A new session, whose events go to the listener; it lives until `close`."""
        id = self.ask("POST", "/api/sessions").data["session"]
        asyncio.run_coroutine_threadsafe(self._hear(id), self.loop)
        return id

    def close(self) -> None:
        """End the server, and free what it held."""
        self.desk.hub.close()
        self._call(self.life.end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def _call(self, coroutine: Any, seconds: float | None = None) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    async def _hear(self, id: str) -> None:
        async for words in self.desk.hub.listen(self.desk.hub.get(id)):
            lines = dict(line.split(": ", 1) for line in words.decode().splitlines() if ": " in line and not line.startswith(":"))
            if "event" in lines:
                self.listener(lines["event"], json.loads(lines["data"]))

    async def _asked(self, method: str, path: str, body: Any) -> Reply:
        where, _, query = path.partition("?")
        headers = [(b"host", b"127.0.0.1"), (b"x-headwise-token", self.token.encode())]
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": unquote(where)}
        scope |= {
            "raw_path": where.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "server": ("127.0.0.1", None),
            "client": None,
        }
        sent: list[Any] = []
        content = b"" if body is None else json.dumps(body).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        kind = dict(sent[0]["headers"]).get(b"content-type", b"").decode().partition(";")[0]
        return Reply(sent[0]["status"], kind, b"".join(message.get("body", b"") for message in sent[1:]))


class _Life:
    """The application's lifespan, begun and ended from outside."""

    def __init__(self, app: Any) -> None:
        self.orders: asyncio.Queue = asyncio.Queue()
        self.answers: asyncio.Queue = asyncio.Queue()
        self.running = asyncio.ensure_future(app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self.orders.get, self.answers.put))

    @classmethod
    async def begin(cls, app: Any) -> "_Life":
        life = cls(app)
        await life.orders.put({"type": "lifespan.startup"})
        await life.answers.get()
        return life

    async def end(self) -> None:
        await self.orders.put({"type": "lifespan.shutdown"})
        await self.answers.get()
        await self.running


def inside(models: Any, listener: Callable[[str, Any], None] = lambda name, data: None) -> Inside:
    """A server for these models, given by name or opened."""
    return Inside(Settings(models, new_token()), listener)

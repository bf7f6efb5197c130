"""Sessions, one for each tab: what a tab requested is freed when it is gone, and events are sent to the tabs that are there."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from headwise.errors import RequestError
from headwise.server.payloads.json_data import to_json
from headwise.server.state.edit_history import EditHistory

HEARTBEAT = 10.0  # seconds between comments on a stream, by which a lost connection is detected
GRACE = 15.0  # seconds for a tab to come back: a page that is loaded again
PATIENCE = 60.0  # seconds for a new session to open its stream
MAX_SESSIONS = 256


@dataclass(eq=False)
class PageSession:
    """One tab.

    Attributes:
        streams: its open event streams, each a queue of encoded events.
        idle_since: since when it has had no stream, or, where it never had one, made no request; None while it has a stream.
        had_stream: it has had a stream.
        busy: number of its requests that are being worked on.
        edits: by model.
    """

    id: str
    streams: "list[asyncio.Queue[bytes | None]]" = field(default_factory=list)
    idle_since: float | None = field(default_factory=time.monotonic)
    had_stream: bool = False
    busy: int = 0
    edits: dict[str, EditHistory] = field(default_factory=dict)


class Sessions:
    """All sessions; used in the event loop only, except for `publish`.

    Args:
        on_end: called with the id of a session that has ended.
    """

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self.on_end = on_end
        self.sessions: dict[str, PageSession] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.closing = False

    def open(self) -> PageSession:
        """A new session.

        Raises:
            RequestError: there are too many.
        """
        self.sweep()
        if len(self.sessions) >= MAX_SESSIONS:
            raise RequestError(429, "Busy", f"There can be at most {MAX_SESSIONS} sessions. Close some tabs.")
        session = PageSession(f"s-{secrets.token_urlsafe(12)}")
        self.sessions[session.id] = session
        return session

    def get(self, id: str) -> PageSession:
        """The session of this id.

        Raises:
            RequestError: it has ended, or never was.
        """
        if id not in self.sessions:
            raise RequestError(404, "NotFound", f"There is no session {id[:40]!r}. Load the page again to make a new one.")
        self.touch(id)
        return self.sessions[id]

    def touch(self, id: str) -> None:
        """Note a request: a session without a stream, as of a script, lives as long as it makes requests."""
        session = self.sessions.get(id)
        if session is not None and not session.had_stream:
            session.idle_since = time.monotonic()

    @contextmanager
    def busy(self, session: PageSession) -> Iterator[None]:
        """While a request is worked on, its session is not freed."""
        session.busy += 1
        try:
            yield
        finally:
            session.busy -= 1
            self.touch(session.id)

    async def stream(self, session: PageSession) -> AsyncIterator[bytes]:
        """The events of a session as a stream of server-sent events, until the tab is gone or the server ends."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(1000)
        session.streams.append(queue)
        session.idle_since, session.had_stream = None, True
        try:
            yield b": hello\n\n"
            while not self.closing:
                try:
                    event = await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    event = b": heartbeat\n\n"
                if event is None:
                    return
                yield event
        finally:
            session.streams.remove(queue)
            if not session.streams:
                session.idle_since = time.monotonic()

    def publish(self, name: str, data: Mapping[str, object], session: str | None = None) -> None:
        """Send an event to one session, or to all; from any thread."""
        event = f"event: {name}\ndata: {json.dumps(to_json(data))}\n\n".encode()
        if self.loop is not None and self.loop.is_running():
            self.loop.call_soon_threadsafe(self._put, event, session)

    def close(self) -> None:
        """End every stream, so that the server can end."""
        self.closing = True
        if self.loop is not None and self.loop.is_running():
            self.loop.call_soon_threadsafe(self._put, None, None)

    def sweep(self) -> None:
        """Free the sessions whose tab is gone."""
        now = time.monotonic()
        for session in list(self.sessions.values()):
            if session.idle_since is not None and not session.busy and now - session.idle_since > (GRACE if session.had_stream else PATIENCE):
                del self.sessions[session.id]
                self.on_end(session.id)

    async def sweep_regularly(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.sweep()

    def _put(self, event: bytes | None, session: str | None) -> None:
        chosen = self.sessions.values() if session is None else filter(None, [self.sessions.get(session)])
        for queue in [queue for one in chosen for queue in one.streams]:
            if queue.full():
                queue.get_nowait()  # a tab that does not read loses the oldest
            queue.put_nowait(event)

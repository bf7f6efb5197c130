"""Sessions: a tab each. What a tab had made is freed when it is gone; what happens meanwhile is told to those that are there."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headwise.server.responses import Denied, plain
from headwise.server.state.edit_history import History

BEAT = 10.0  # seconds between signs of life, by which a connection that is gone is found out
GRACE = 15.0  # seconds for a tab to come back: a page that is loaded again
PATIENCE = 60.0  # seconds for a new session to begin to listen
SESSIONS = 256


@dataclass(eq=False)
class Session:
    """One tab.

    Attributes:
        streams: its open event streams, each a queue of what to tell.
        alone: since when nobody listens, nor asked for anything where nobody ever listened; None while somebody does.
        heard: somebody has listened.
        busy: requests of it that are being worked on.
        edits: by model.
    """

    id: str
    streams: list[asyncio.Queue] = field(default_factory=list)
    alone: float | None = field(default_factory=time.monotonic)
    heard: bool = False
    busy: int = 0
    edits: dict[str, History] = field(default_factory=dict)


class Hub:
    """All sessions; used in the event loop alone, but for `tell`.

    Args:
        freed: called with the id of a session that is over.
    """

    def __init__(self, freed: Callable[[str], None]) -> None:
        self.freed = freed
        self.sessions: dict[str, Session] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.closing = False

    def open(self) -> Session:
        """A new session.

        Raises:
            Denied: there are too many.
        """
        self.sweep()
        if len(self.sessions) >= SESSIONS:
            raise Denied(429, "Busy", f"sessions must be at most {SESSIONS}, got one more. Close some tabs.")
        session = Session(f"s-{secrets.token_urlsafe(12)}")
        self.sessions[session.id] = session
        return session

    def get(self, id: str) -> Session:
        """The session of this id.

        Raises:
            Denied: it is over, or never was.
        """
        if id not in self.sessions:
            raise Denied(404, "NotFound", f"session must be one that is open, got {id[:40]!r}. Make a new one: load the page again.")
        self.touch(id)
        return self.sessions[id]

    def touch(self, id: str) -> None:
        """A session that never listened, as of a script, lives as long as it asks."""
        session = self.sessions.get(id)
        if session is not None and not session.heard:
            session.alone = time.monotonic()

    @contextmanager
    def busy(self, session: Session) -> Iterator[None]:
        """While a request is worked on, its session is not freed."""
        session.busy += 1
        try:
            yield
        finally:
            session.busy -= 1
            self.touch(session.id)

    async def listen(self, session: Session) -> AsyncIterator[bytes]:
        """The events of a session as a stream of server-sent events, until the tab is gone or the server ends."""
        queue: asyncio.Queue = asyncio.Queue(1000)
        session.streams.append(queue)
        session.alone, session.heard = None, True
        try:
            yield b": hello\n\n"
            while not self.closing:
                try:
                    words = await asyncio.wait_for(queue.get(), BEAT)
                except TimeoutError:
                    words = b": beat\n\n"
                if words is None:
                    return
                yield words
        finally:
            session.streams.remove(queue)
            if not session.streams:
                session.alone = time.monotonic()

    def tell(self, name: str, data: Mapping[str, Any], session: str | None = None) -> None:
        """Tell one session, or all; from any thread."""
        words = f"event: {name}\ndata: {json.dumps(plain(data))}\n\n".encode()
        if self.loop is not None and self.loop.is_running():
            self.loop.call_soon_threadsafe(self._put, words, session)

    def close(self) -> None:
        """End every stream, so that the server can."""
        self.closing = True
        if self.loop is not None and self.loop.is_running():
            self.loop.call_soon_threadsafe(self._put, None, None)

    def sweep(self) -> None:
        """Free the sessions whose tab is gone."""
        now = time.monotonic()
        for session in list(self.sessions.values()):
            if session.alone is not None and not session.busy and now - session.alone > (GRACE if session.heard else PATIENCE):
                del self.sessions[session.id]
                self.freed(session.id)

    async def keep_sweeping(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.sweep()

    def _put(self, words: bytes | None, session: str | None) -> None:
        chosen = self.sessions.values() if session is None else filter(None, [self.sessions.get(session)])
        for queue in [queue for one in chosen for queue in one.streams]:
            if queue.full():
                queue.get_nowait()  # a tab that does not read loses the oldest
            queue.put_nowait(words)

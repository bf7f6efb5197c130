"""The runs that the server holds: each as long as a session looks at it, and no more than fit into a budget of bytes."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from headwise.errors import RequestError

if TYPE_CHECKING:
    from headwise.models.run import Run

T = TypeVar("T")
RESPONSE_BYTES = 16 << 20  # of responses that are kept for each run


@dataclass(eq=False)
class CachedRun:
    """A run and what was computed from it.

    Attributes:
        run_or_none: the run; None while its model is being opened and what is shown was stored at an earlier start.
        arriving: finished when the run is there.
        sessions: ids of the sessions that look at it.
        facts: the JSON that describes it.
        computed: results that cost something, by name: means of writes, the model's output, the proof.
        responses: bytes of responses, the most recently used last.
    """

    id: str
    model: str
    text: str
    run_or_none: "Run | None"
    facts: dict[str, Any]
    sessions: set[str] = field(default_factory=set)
    computed: dict[Hashable, "asyncio.Future[Any]"] = field(default_factory=dict)
    responses: "OrderedDict[Hashable, bytes]" = field(default_factory=OrderedDict)
    response_bytes: int = 0
    arriving: "asyncio.Future[None] | None" = None

    @property
    def run(self) -> "Run":
        if self.run_or_none is None:
            raise RuntimeError(f"Run {self.id} is not there yet. Await ready() first.")
        return self.run_or_none

    async def ready(self) -> "Run":
        """The run, once it is there.

        Raises:
            RequestError: its model cannot be opened, or its numbers differ from the stored ones.
        """
        if self.run_or_none is None and self.arriving is not None:
            await asyncio.shield(self.arriving)
        return self.run

    @property
    def size(self) -> int:
        return (0 if self.run_or_none is None else self.run_or_none.bytes) + self.response_bytes

    async def once(self, name: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """A result of this run, computed when it is first requested, once however many request it."""
        return await once(self.computed, name, compute)

    def remember(self, name: Hashable, response: bytes) -> bytes:
        """Keep a response, and drop those used longest ago."""
        if name not in self.responses and len(response) <= RESPONSE_BYTES:
            self.responses[name] = response
            self.response_bytes += len(response)
            while self.response_bytes > RESPONSE_BYTES:
                self.response_bytes -= len(self.responses.popitem(last=False)[1])
        return response

    def known(self, name: Hashable) -> bytes | None:
        if name in self.responses:
            self.responses.move_to_end(name)
        return self.responses.get(name)


class RunCache:
    """Every run that the server holds. Used in the event loop only.

    Args:
        budget: bytes; the newest run stays however large it is.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.runs: OrderedDict[str, CachedRun] = OrderedDict()
        self.pending: dict[Hashable, asyncio.Future[CachedRun]] = {}

    async def run(self, model: str, text: str, session: str, read: Callable[[], Awaitable[tuple["Run", dict[str, Any]]]]) -> CachedRun:
        """The run of a text: the one there is, or a new one.

        Args:
            read: gives the run and the facts that describe it.
        """
        found = self._of(model, text)
        if found is None:

            async def begin() -> CachedRun:
                run, facts = await read()
                cached = CachedRun(f"r-{secrets.token_urlsafe(12)}", model, text, run, facts)
                facts["id"] = cached.id
                self.runs[cached.id] = cached
                self._make_room(cached)
                return cached

            found = await once(self.pending, (model, text), begin)
            self.pending.pop((model, text), None)
        found.sessions.add(session)
        self.runs.setdefault(found.id, found)
        self.runs.move_to_end(found.id)
        return found

    def expect(self, model: str, text: str, session: str, facts: Mapping[str, Any], read: Callable[[CachedRun], Awaitable["Run"]]) -> CachedRun:
        """What was stored at an earlier start, until the run is there; the run itself where there is one.

        Args:
            facts: as they were then.
            read: gives the run, after comparing it with what is shown; its errors go to all who wait, and the run is dropped.
        """
        found = self._of(model, text)
        if found is None:
            id = f"r-{secrets.token_urlsafe(12)}"
            found = self.runs[id] = CachedRun(id, model, text, None, {**facts, "model": model, "id": id, "from_earlier_start": True})
            found.arriving = asyncio.ensure_future(self._arrive(found, read))
            found.arriving.add_done_callback(lambda done: done.cancelled() or done.exception())  # those who wait get it, if any do
        found.sessions.add(session)
        return found

    async def _arrive(self, cached: CachedRun, read: Callable[[CachedRun], Awaitable["Run"]]) -> None:
        try:
            cached.run_or_none = await read(cached)
            self._make_room(cached)
        except BaseException:
            self.runs.pop(cached.id, None)
            raise

    def _of(self, model: str, text: str) -> CachedRun | None:
        return next((cached for cached in self.runs.values() if (cached.model, cached.text) == (model, text)), None)

    def get(self, id: str) -> CachedRun:
        """A run.

        Raises:
            RequestError: it is no longer held.
        """
        if id not in self.runs:
            raise RequestError(410, "RunGone", f"Run {id[:40]!r} is no longer held: it made room for others, or its tab was closed. Run the text again.")
        self.runs.move_to_end(id)
        return self.runs[id]

    def leave(self, session: str, id: str | None = None) -> None:
        """A session no longer looks at one run, or at any."""
        for cached in [cached for cached in self.runs.values() if session in cached.sessions and id in (None, cached.id)]:
            cached.sessions.discard(session)
            if not cached.sessions:
                del self.runs[cached.id]

    def drop(self, model: str) -> None:
        """Drop the runs of a model."""
        for cached in [cached for cached in self.runs.values() if cached.model == model]:
            del self.runs[cached.id]

    @property
    def size(self) -> int:
        return sum(cached.size for cached in self.runs.values())

    def _make_room(self, newest: CachedRun) -> None:
        while self.size > self.budget and len(self.runs) > 1:
            oldest = next(cached for cached in self.runs.values() if cached is not newest)
            del self.runs[oldest.id]


async def once(computed: "dict[Hashable, asyncio.Future[T]]", name: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
    """The result of `compute`, computed once; an error goes to all who wait, and the next request tries again. Who stops waiting does not stop the work."""
    if name not in computed:
        computed[name] = asyncio.ensure_future(compute())
        computed[name].add_done_callback(lambda done: computed.pop(name, None) if done.cancelled() or done.exception() is not None else None)
    return await asyncio.shield(computed[name])

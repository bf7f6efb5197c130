"""The runs that are held: each as long as a session looks at it, and no more of them than fit into a budget of bytes."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwise.server.responses import Denied

if TYPE_CHECKING:
    from headwise.models.run import Run

TILES = 16 << 20  # bytes of answers that are kept ready for each run


@dataclass(eq=False)
class Held:
    """A run and what was made of it.

    Attributes:
        there: the run; None while its model is being opened and what is shown was seen at an earlier start.
        arriving: ends when it is there.
        sessions: that look at it.
        facts: the JSON that tells of it.
        made: answers that cost something, by name: numbers of writes, what the model says, the proof.
        ready: bytes of answers, the last used at the end.
    """

    id: str
    model: str
    text: str
    there: "Run | None"
    facts: dict[str, Any]
    sessions: set[str] = field(default_factory=set)
    made: dict[Any, asyncio.Future] = field(default_factory=dict)
    ready: "OrderedDict[Any, bytes]" = field(default_factory=OrderedDict)
    ready_bytes: int = 0
    arriving: "asyncio.Future | None" = None

    @property
    def run(self) -> "Run":
        if self.there is None:
            raise RuntimeError(f"run {self.id} must be waited for, got one that is not there yet. Await whole().")
        return self.there

    async def whole(self) -> "Run":
        """The run, when it is there.

        Raises:
            Denied: its model cannot be opened, or says something else than what was kept.
        """
        if self.there is None and self.arriving is not None:
            await asyncio.shield(self.arriving)
        return self.run

    @property
    def size(self) -> int:
        return (0 if self.there is None else self.there.bytes) + self.ready_bytes

    async def once(self, name: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """Something of this run that is made when it is first asked for, once however many ask."""
        return await once(self.made, name, make)

    def remember(self, name: Any, answer: bytes) -> bytes:
        """Keep an answer ready, at the cost of those used longest ago."""
        if name not in self.ready and len(answer) <= TILES:
            self.ready[name] = answer
            self.ready_bytes += len(answer)
            while self.ready_bytes > TILES:
                self.ready_bytes -= len(self.ready.popitem(last=False)[1])
        return answer

    def known(self, name: Any) -> bytes | None:
        if name in self.ready:
            self.ready.move_to_end(name)
        return self.ready.get(name)


class Keep:
    """Every run that is held. Used in the event loop alone.

    Args:
        budget: bytes; the newest run stays however large it is.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.runs: OrderedDict[str, Held] = OrderedDict()
        self.coming: dict[Any, asyncio.Future] = {}

    async def run(self, model: str, text: str, session: str, make: Callable[[], Awaitable[tuple["Run", dict[str, Any]]]]) -> Held:
        """The run of a text: the one there is, or a new one."""
        found = self._of(model, text)
        if found is None:

            async def begin() -> Held:
                run, facts = await make()
                held = Held(f"r-{secrets.token_urlsafe(12)}", model, text, run, facts)
                facts["id"] = held.id
                self.runs[held.id] = held
                self._make_room(held)
                return held

            found = await once(self.coming, (model, text), begin)
            self.coming.pop((model, text), None)
        found.sessions.add(session)
        self.runs.setdefault(found.id, found)
        self.runs.move_to_end(found.id)
        return found

    def foresee(self, model: str, text: str, session: str, facts: Mapping[str, Any], make: Callable[[Held], Awaitable["Run"]]) -> Held:
        """What was seen at an earlier start, until the run is there; the run itself where there is one.

        Args:
            facts: as they were then.
            make: makes the run, and holds it against what is shown; what it raises is told to all who wait, and the run is gone.
        """
        found = self._of(model, text)
        if found is None:
            id = f"r-{secrets.token_urlsafe(12)}"
            found = self.runs[id] = Held(id, model, text, None, {**facts, "model": model, "id": id})
            found.arriving = asyncio.ensure_future(self._arrive(found, make))
            found.arriving.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is told to those who wait, if any do
        found.sessions.add(session)
        return found

    async def _arrive(self, held: Held, make: Callable[[Held], Awaitable["Run"]]) -> None:
        try:
            held.there = await make(held)
            self._make_room(held)
        except BaseException:
            self.runs.pop(held.id, None)
            raise

    def _of(self, model: str, text: str) -> Held | None:
        return next((held for held in self.runs.values() if (held.model, held.text) == (model, text)), None)

    def get(self, id: str) -> Held:
        """A run.

        Raises:
            Denied: it is held no more.
        """
        if id not in self.runs:
            raise Denied(
                410, "RunGone", f"run must be one that is held, got {id[:40]!r}, which made room for others or whose tab was closed. Run the text again."
            )
        self.runs.move_to_end(id)
        return self.runs[id]

    def leave(self, session: str, id: str | None = None) -> None:
        """A session looks at one run no more, or at none."""
        for held in [held for held in self.runs.values() if session in held.sessions and id in (None, held.id)]:
            held.sessions.discard(session)
            if not held.sessions:
                del self.runs[held.id]

    def drop(self, model: str) -> None:
        """Forget the runs of a model."""
        for held in [held for held in self.runs.values() if held.model == model]:
            del self.runs[held.id]

    @property
    def size(self) -> int:
        return sum(held.size for held in self.runs.values())

    def _make_room(self, newest: Held) -> None:
        while self.size > self.budget and len(self.runs) > 1:
            oldest = next(held for held in self.runs.values() if held is not newest)
            del self.runs[oldest.id]


async def once(made: dict[Any, asyncio.Future], name: Any, make: Callable[[], Awaitable[Any]]) -> Any:
    """What `make` gives, made once; a failure is told to all who wait, and tried again by the next. Who stops waiting does not stop it."""
    if name not in made:
        made[name] = asyncio.ensure_future(make())
        made[name].add_done_callback(lambda done: made.pop(name, None) if done.cancelled() or done.exception() is not None else None)
    return await asyncio.shield(made[name])

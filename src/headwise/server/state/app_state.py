"""What every route stands at: the models, the sessions, the runs, the jobs and the places for work of one server."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.server.payloads.sample_texts import TEXTS
from headwise.server.state.model_library import Library, Shelved, entry
from headwise.server.state.run_cache import Keep
from headwise.server.state.sessions import Hub
from headwise.server.work.background_jobs import Jobs
from headwise.server.work.thread_pool import Work

if TYPE_CHECKING:
    from headwise.models.model import Model

BUDGET = 1 << 30  # bytes for all runs together


@dataclass(frozen=True)
class Settings:
    """How a server was started.

    Attributes:
        models: names, or opened models, in the order of the page's list.
        folder: whose subfolders are models too.
        save: where checkpoints are written.
        compare: names of two of the models.
        subjects: import paths of attentions that may be checked beside those known by name.
        token: what a request that writes must know.
        hosts: names by which the server is called.
        port: of its address; None where it is not known.
        any_address: it listens on every address.
        budget: bytes for all runs together.
    """

    models: "Sequence[str | Model]"
    token: str
    folder: Path | None = None
    save: Path = Path("headwise-checkpoints")
    compare: tuple[str, str] | None = None
    subjects: Sequence[str] = ()
    hosts: Sequence[str] = ("127.0.0.1", "localhost", "[::1]")
    port: int | None = None
    any_address: bool = False
    budget: int = BUDGET


@dataclass(eq=False)
class Desk:
    """The parts of one server, the sample texts that it offers, and by model where the cards of its claims are looked up."""

    settings: Settings
    hub: Hub = field(init=False)
    library: Library = field(init=False)
    keep: Keep = field(init=False)
    jobs: Jobs = field(init=False)
    work: Work = field(init=False)
    texts: dict[str, dict[str, str]] = field(default_factory=lambda: dict(TEXTS))
    hands: dict[Any, asyncio.Future] = field(default_factory=dict)
    errands: set[asyncio.Future] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hub = Hub(self._freed)
        self.library = Library(self.settings.models, self.settings.folder, self._changed)
        self.keep = Keep(self.settings.budget)
        self.jobs = Jobs(self.hub)

    def errand(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for; it is given up when the server ends."""
        task = asyncio.ensure_future(work)
        self.errands.add(task)
        task.add_done_callback(self.errands.discard)

    def _freed(self, session: str) -> None:
        self.keep.leave(session)
        self.jobs.leave(session)

    def _changed(self, found: Shelved) -> None:
        self.hub.tell("model", entry(found))


ABLE = {
    "importance": "headwise.server.payloads.edit_measurements",
    "edit": "headwise.interventions.edited",
    "save": "headwise.interventions.save",
    "roles": "headwise.analysis.roles.find_roles",
    "compare": "headwise.analysis.checkpoints.compare",
    "claims": "headwise.experiments.investigate",
}


@cache
def abilities() -> Mapping[str, str]:
    """What this installation can do beyond what is always there, and the code that does it."""
    return {name: module for name, module in ABLE.items() if find_spec(module) is not None}

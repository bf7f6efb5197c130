"""Everything that one server holds: its models, sessions, runs, jobs and threads."""

import asyncio
from collections.abc import Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.server.state.jobs import Jobs
from headwise.server.state.model_library import ModelEntry, ModelLibrary, entry
from headwise.server.state.run_cache import RunCache
from headwise.server.state.sample_texts import TEXTS
from headwise.server.state.sessions import Sessions
from headwise.server.work.thread_pools import ThreadPools

if TYPE_CHECKING:
    from headwise.experiments.available_results import AvailableResults
    from headwise.models.model import Model

RUN_BUDGET = 1 << 30  # bytes for all runs together


@dataclass(frozen=True)
class ServerSettings:
    """The options a server is started with.

    Attributes:
        models: names, or opened models, in the order of the page's list.
        token: required of requests that change something.
        folder: a folder whose subfolders are models too.
        save: where checkpoints are written.
        compare: names of two of the models.
        subjects: import paths of attention implementations that may be checked beside those known by name.
        hosts: names of the server, without the port.
        port: of its address; None where it is not known.
        any_address: the server listens on every interface.
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
    budget: int = RUN_BUDGET


@dataclass(eq=False)
class AppState:
    """The parts of one server.

    Attributes:
        texts: sample texts that the page offers, by id.
        claim_results: for each model, where the results of its claims are looked up.
        background_tasks: work that nobody waits for.
    """

    settings: ServerSettings
    sessions: Sessions = field(init=False)
    models: ModelLibrary = field(init=False)
    runs: RunCache = field(init=False)
    jobs: Jobs = field(init=False)
    threads: ThreadPools = field(init=False)
    texts: dict[str, dict[str, str]] = field(default_factory=lambda: dict(TEXTS))
    claim_results: "dict[Hashable, asyncio.Future[AvailableResults]]" = field(default_factory=dict)
    background_tasks: set[asyncio.Future[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self._session_ended)
        self.models = ModelLibrary(self.settings.models, self.settings.folder, self._model_changed)
        self.runs = RunCache(self.settings.budget)
        self.jobs = Jobs(self.sessions)

    def in_background(self, work: Coroutine[None, None, None]) -> None:
        """Start work that nobody waits for; it is dropped when the server ends."""
        task = asyncio.ensure_future(work)
        self.background_tasks.add(task)
        task.add_done_callback(self.background_tasks.discard)

    def _session_ended(self, session: str) -> None:
        self.runs.leave(session)
        self.jobs.leave(session)

    def _model_changed(self, changed: ModelEntry) -> None:
        self.sessions.publish("model", entry(changed))


FEATURES = {
    "importance": "headwise.server.payloads.edit_measurements",
    "edit": "headwise.interventions.edited",
    "save": "headwise.interventions.save",
    "roles": "headwise.analysis.roles.find_roles",
    "compare": "headwise.analysis.checkpoints.compare",
    "claims": "headwise.experiments.investigate",
}


@cache
def available_features() -> Mapping[str, str]:
    """What this installation can do beyond what is always there, and the module that does it."""
    return {name: module for name, module in FEATURES.items() if find_spec(module) is not None}

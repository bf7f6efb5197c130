"""Routes about jobs: begin one, look how far it is, call it off."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwise.server.guard import check_token
from headwise.server.payloads.sample_texts import CHARACTERS
from headwise.server.responses import Denied, body_of, said
from headwise.server.routes.about import OURS
from headwise.server.state.app_state import Desk, abilities
from headwise.server.work import transformers_import as imports
from headwise.server.work.background_jobs import CalledOff, Job, in_process

FIELDS: Mapping[str, type] = {"subject": str, "level": str, "run": str, "part": str, "model": str, "base": str, "tuned": str, "text": str, "only": str}
Work = Callable[[Job], Awaitable[Any]]


def routes(desk: Desk) -> list[Route]:
    found = JobRoutes(desk)
    return [
        Route("/api/jobs", found.begin, methods=["POST"]),
        Route("/api/jobs/{id}", found.cancel, methods=["DELETE"]),
        Route("/api/jobs/{id}", found.get),
    ]


class JobRoutes:
    """The handlers, with the desk that they stand at."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def begin(self, request: Request) -> Response:
        check_token(request.scope)
        asked = await body_of(request, {"session": str, "kind": str}, FIELDS)
        session = self.desk.hub.get(asked["session"])
        kinds: Mapping[str, Callable[[dict[str, Any]], Awaitable[Work]]] = {"check": self._check, "kills": self._kills, **self._able()}
        if asked["kind"] not in kinds:
            raise Denied(400, "ArgumentError", f"kind must be one of {', '.join(kinds)}, got {asked['kind'][:40]!r}. Choose one of them.")
        work = await kinds[asked["kind"]](asked)
        job = self.desk.jobs.begin(session.id, asked["kind"], work)
        return said(job.told(), 202)

    async def get(self, request: Request) -> Response:
        job = self.desk.jobs.get(request.path_params["id"])
        return said({**job.told(), "result": job.result})

    async def cancel(self, request: Request) -> Response:
        check_token(request.scope)
        job = self.desk.jobs.get(request.path_params["id"])
        self.desk.jobs.cancel(job)
        return said(job.told(), 202)

    def _able(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[Work]]]:
        """The kinds of work that this installation is able to do, of those that need a model."""
        found = {"importance": self._importance, "roles": self._roles, "compare": self._compare, "claims": self._claims}
        return {kind: make for kind, make in found.items() if kind in abilities()}

    async def _check(self, asked: dict[str, Any]) -> Work:
        subject, level = asked.get("subject", OURS), asked.get("level", "quick")
        known = (*await self.desk.work.look(_peers), OURS, *self.desk.settings.subjects)
        if subject not in known:
            raise Denied(400, "ArgumentError", f"subject must be one of {', '.join(known)}, got {subject[:80]!r}. Name others with --subject at start.")
        if level not in ("quick", "full"):
            raise Denied(400, "ArgumentError", f"level must be quick or full, got {level[:40]!r}. Choose one of them.")
        return self._worker({"kind": "check", "subject": subject, "level": level})

    async def _kills(self, asked: dict[str, Any]) -> Work:
        return self._worker({"kind": "kills"})

    def _worker(self, asked: dict[str, Any]) -> Work:
        async def work(job: Job) -> Any:
            return await in_process(asked, lambda words: self._heard(job, words))

        return work

    def _heard(self, job: Job, words: Mapping[str, Any]) -> None:
        done = words.get("done", job.done + 1)
        self.desk.jobs.tell(job, done=done, of=words.get("of"), doing=str(words.get("doing", ""))[:120])

    async def _importance(self, asked: dict[str, Any]) -> Work:
        held = self.desk.keep.get(asked.get("run", ""))
        run = await held.whole()
        part = asked.get("part", held.facts["parts"][0]["name"])
        if part not in [one["name"] for one in held.facts["parts"]]:
            raise Denied(400, "ArgumentError", f"part must be one of the run's, got {part[:40]!r}. Correct it.")

        async def work(job: Job) -> Any:
            from headwise.server.payloads.edit_measurements import importance

            return await self.desk.work.prove(importance, run, part, lambda **words: self.desk.jobs.tell(job, **words), job.stop.is_set)

        return work

    async def _roles(self, asked: dict[str, Any]) -> Work:
        model, only = await self.desk.library.opened(asked.get("model", "")), asked.get("only")
        names = await self.desk.work.look(_playable)
        if only is not None and only not in names:
            raise Denied(400, "ArgumentError", f"only must be one of {', '.join(names)}, got {only[:40]!r}. Leave it out for all.")

        async def work(job: Job) -> Any:
            from headwise.server.payloads.played_roles import played

            return await self.desk.work.prove(partial(played, only=only), model, self._step(job))

        return work

    async def _compare(self, asked: dict[str, Any]) -> Work:
        base, tuned = [await self.desk.library.opened(asked.get(name, "")) for name in ("base", "tuned")]
        text = asked.get("text")
        if text is not None and len(text) > CHARACTERS:
            raise Denied(400, "ArgumentError", f"text must have at most {CHARACTERS} characters, got {len(text)}. Shorten it.")

        async def work(job: Job) -> Any:
            from headwise.server.payloads.compared import compared

            return await self.desk.work.prove(compared, base, tuned, text)

        return work

    async def _claims(self, asked: dict[str, Any]) -> Work:
        model, only = await self.desk.library.opened(asked.get("model", "")), asked.get("only")
        from headwise.experiments.investigate import all_claims

        if only is not None and only not in all_claims():
            raise Denied(400, "ArgumentError", f"only must be one of {', '.join(all_claims())}, got {only[:40]!r}. Leave it out for all.")

        async def work(job: Job) -> Any:
            from headwise.server.payloads.claim_cards import measured

            return await self.desk.work.experiment(measured, model, only, self._step(job))

        return work

    def _step(self, job: Job) -> Callable[[str, int, int], None]:
        """Tells how far a job is, from its thread; ends the work when it has been called off."""

        def tell(doing: str, done: int, of: int) -> None:
            if job.stop.is_set():
                raise CalledOff
            self.desk.jobs.tell(job, done=done, of=of, doing=doing)

        return tell


def _playable() -> list[str]:
    """Roles that a job can ask for by name; the first time this imports much."""
    imports.transformers()
    from headwise.server.payloads.played_roles import playable

    return [one["name"] for one in playable()]


def _peers() -> list[str]:
    """Attentions that are known by name; the first time this imports much."""
    imports.transformers()
    from headwise.conformance.adapters.find import peers

    return list(peers())

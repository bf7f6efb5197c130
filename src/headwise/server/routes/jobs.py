"""Routes about jobs: begin one, ask how far it is, cancel it."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwise.errors import RequestError
from headwise.progress import ProgressCallback
from headwise.server.guard import check_token
from headwise.server.responses import json_response, read_body
from headwise.server.routes.about import OURS
from headwise.server.state.app_state import AppState, available_features
from headwise.server.state.jobs import Job, JobCancelled
from headwise.server.state.sample_texts import MAX_CHARACTERS
from headwise.server.work.transformers_import import import_transformers
from headwise.server.work.worker_client import run_in_process

FIELDS: Mapping[str, type] = {"subject": str, "level": str, "run": str, "part": str, "model": str, "base": str, "tuned": str, "text": str, "only": str}
JobFunction = Callable[[Job], Awaitable[object]]


def routes(state: AppState) -> list[Route]:
    handlers = JobRoutes(state)
    return [
        Route("/api/jobs", handlers.begin, methods=["POST"]),
        Route("/api/jobs/{id}", handlers.cancel, methods=["DELETE"]),
        Route("/api/jobs/{id}", handlers.get),
    ]


class JobRoutes:
    """The handlers, and the state that they work on."""

    def __init__(self, state: AppState) -> None:
        self.state = state

    async def begin(self, request: Request) -> Response:
        check_token(request.scope)
        body = await read_body(request, {"session": str, "kind": str}, FIELDS)
        session = self.state.sessions.get(body["session"])
        kinds: Mapping[str, Callable[[dict[str, Any]], Awaitable[JobFunction]]] = {
            "check": self._check,
            "kill_matrix": self._kill_matrix,
            **self._model_kinds(),
        }
        if body["kind"] not in kinds:
            raise RequestError(400, "ArgumentError", f"kind must be one of {', '.join(kinds)}, got {body['kind'][:40]!r}. Choose one of them.")
        work = await kinds[body["kind"]](body)
        job = self.state.jobs.begin(session.id, body["kind"], work)
        return json_response(job.status(), 202)

    async def get(self, request: Request) -> Response:
        job = self.state.jobs.get(request.path_params["id"])
        return json_response({**job.status(), "result": job.result})

    async def cancel(self, request: Request) -> Response:
        check_token(request.scope)
        job = self.state.jobs.get(request.path_params["id"])
        self.state.jobs.cancel(job)
        return json_response(job.status(), 202)

    def _model_kinds(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[JobFunction]]]:
        """The kinds of job that need a model and that this installation can do."""
        kinds = {"importance": self._importance, "roles": self._roles, "compare": self._compare, "claims": self._claims}
        return {kind: make for kind, make in kinds.items() if kind in available_features()}

    async def _check(self, body: dict[str, Any]) -> JobFunction:
        subject, level = body.get("subject", OURS), body.get("level", "quick")
        known = (*await self.state.threads.look(_known_subjects), OURS, *self.state.settings.subjects)
        if subject not in known:
            raise RequestError(400, "ArgumentError", f"subject must be one of {', '.join(known)}, got {subject[:80]!r}. Name others with --subject at start.")
        if level not in ("quick", "full"):
            raise RequestError(400, "ArgumentError", f"level must be quick or full, got {level[:40]!r}. Choose one of them.")
        return self._in_worker({"kind": "check", "subject": subject, "level": level})

    async def _kill_matrix(self, body: dict[str, Any]) -> JobFunction:
        return self._in_worker({"kind": "kill_matrix"})

    def _in_worker(self, request: dict[str, Any]) -> JobFunction:
        async def work(job: Job) -> object:
            return await run_in_process(request, lambda message: self._report(job, message))

        return work

    def _report(self, job: Job, message: Mapping[str, Any]) -> None:
        done = message.get("done", job.done + 1)
        self.state.jobs.report(job, done=done, of=message.get("of"), doing=str(message.get("doing", ""))[:120])

    async def _importance(self, body: dict[str, Any]) -> JobFunction:
        cached = self.state.runs.get(body.get("run", ""))
        run = await cached.ready()
        part = body.get("part", cached.facts["parts"][0]["name"])
        if part not in [one["name"] for one in cached.facts["parts"]]:
            raise RequestError(400, "ArgumentError", f"part must be one of the run's parts, got {part[:40]!r}. Correct it.")

        async def work(job: Job) -> object:
            from headwise.server.payloads.edit_measurements import measure_importance

            return await self.state.threads.prove(measure_importance, run, part, self._progress(job), job.stop.is_set)

        return work

    async def _roles(self, body: dict[str, Any]) -> JobFunction:
        model, only = await self.state.models.opened(body.get("model", "")), body.get("only")
        names = await self.state.threads.look(_role_names)
        if only is not None and only not in names:
            raise RequestError(400, "ArgumentError", f"only must be one of {', '.join(names)}, got {only[:40]!r}. Leave it out for all.")

        async def work(job: Job) -> object:
            from headwise.server.payloads.role_scores import score_roles

            return await self.state.threads.prove(partial(score_roles, only=only), model, self._progress(job))

        return work

    async def _compare(self, body: dict[str, Any]) -> JobFunction:
        base, tuned = [await self.state.models.opened(body.get(name, "")) for name in ("base", "tuned")]
        text = body.get("text")
        if text is not None and len(text) > MAX_CHARACTERS:
            raise RequestError(400, "ArgumentError", f"text must have at most {MAX_CHARACTERS} characters, got {len(text)}. Shorten it.")

        async def work(job: Job) -> object:
            from headwise.server.payloads.checkpoint_comparison import compare_checkpoints

            return await self.state.threads.prove(compare_checkpoints, base, tuned, text)

        return work

    async def _claims(self, body: dict[str, Any]) -> JobFunction:
        model, only = await self.state.models.opened(body.get("model", "")), body.get("only")
        from headwise.experiments.investigate import all_claims

        if only is not None and only not in all_claims():
            raise RequestError(400, "ArgumentError", f"only must be one of {', '.join(all_claims())}, got {only[:40]!r}. Leave it out for all.")

        async def work(job: Job) -> object:
            from headwise.server.payloads.claim_cards import measure_claims

            return await self.state.threads.experiment(measure_claims, model, only, self._progress(job))

        return work

    def _progress(self, job: Job) -> ProgressCallback:
        """A progress callback for a job's thread; it ends the work once the job has been cancelled."""

        def report(stage: str, done: int, total: int | None) -> None:
            if job.stop.is_set():
                raise JobCancelled
            self.state.jobs.report(job, done=done, of=total, doing=stage)

        return report


def _role_names() -> list[str]:
    """Roles that a job can test by name; slow the first time, since it imports transformers."""
    import_transformers()
    from headwise.server.payloads.role_scores import testable_roles

    return [role["name"] for role in testable_roles()]


def _known_subjects() -> list[str]:
    """Attention implementations that are known by name; slow the first time, since it imports transformers."""
    import_transformers()
    from headwise.conformance.adapters.resolve import peers

    return list(peers())

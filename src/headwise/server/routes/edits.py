"""Routes about edits: heads that are scaled, their effect on the output, and the checkpoint saved from them."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwise.errors import RequestError
from headwise.server.guard import check_token
from headwise.server.payloads.head_scale import HeadScale, find_place
from headwise.server.responses import json_response, read_body
from headwise.server.state.app_state import AppState
from headwise.server.state.edit_history import EditHistory
from headwise.server.state.model_library import entry
from headwise.server.state.run_cache import CachedRun
from headwise.server.state.sessions import PageSession

if TYPE_CHECKING:
    from headwise.models.run import Run

LARGEST_SCALE = 16.0
CHECKPOINT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


def routes(state: AppState) -> list[Route]:
    """Every route that begins with /api/edits, and the effect of edits on a run."""
    handlers = EditRoutes(state)
    return [
        Route("/api/edits/{model}", handlers.get),
        Route("/api/edits/{model}", handlers.put, methods=["POST"]),
        Route("/api/edits/{model}", handlers.drop, methods=["DELETE"]),
        Route("/api/edits/{model}/undo", handlers.undo, methods=["POST"]),
        Route("/api/edits/{model}/redo", handlers.redo, methods=["POST"]),
        Route("/api/edits/{model}/save", handlers.save, methods=["POST"]),
        Route("/api/runs/{id}/effect", handlers.effect),
        Route("/api/runs/{id}/dose/{layer:int}/{head:int}", handlers.dose),
    ]


class EditRoutes:
    """The handlers, and the state that they work on."""

    def __init__(self, state: AppState) -> None:
        self.state = state

    async def get(self, request: Request) -> Response:
        session = self.state.sessions.get(request.query_params.get("session", ""))
        return await self._edits(request, session)

    async def put(self, request: Request) -> Response:
        """Scale a head."""
        check_token(request.scope)
        body = await read_body(request, {"session": str, "part": str, "layer": int, "head": int, "scale": float})
        session, run = self.state.sessions.get(body["session"]), await self._some_run(request, body["session"]).ready()
        if not 0 <= body["scale"] <= LARGEST_SCALE:
            raise RequestError(400, "ArgumentError", f"scale must be in 0..{LARGEST_SCALE:g}, got {body['scale']}. 0 ablates a head, 1 leaves it unchanged.")
        place = find_place(run, body["part"], body["layer"], body["head"])
        self._history(request, session).put(HeadScale(place.part, place.layer, body["head"], float(body["scale"])))
        return await self._edits(request, session)

    async def drop(self, request: Request) -> Response:
        """Remove the edit of one head, or all edits."""
        check_token(request.scope)
        query = request.query_params
        session = self.state.sessions.get(query.get("session", ""))
        given = [query.get(name) for name in ("part", "layer", "head")]
        if any(given) and not all(given):
            raise RequestError(400, "ArgumentError", f"part, layer and head must come together, got {', '.join(query)}. Give all, or none for all edits.")
        numbers = [int(number) if number is not None and number.isdecimal() and len(number) < 10 else -1 for number in given[1:]]
        self._history(request, session).drop((given[0], *numbers) if given[0] is not None else None)  # pyright: ignore[reportArgumentType]
        return await self._edits(request, session)

    async def undo(self, request: Request) -> Response:
        session = await self._writing_session(request)
        self._history(request, session).undo()
        return await self._edits(request, session)

    async def redo(self, request: Request) -> Response:
        session = await self._writing_session(request)
        self._history(request, session).redo()
        return await self._edits(request, session)

    async def save(self, request: Request) -> Response:
        """Save the edited model as a checkpoint."""
        check_token(request.scope)
        body = await read_body(request, {"session": str, "name": str})
        session, name = self.state.sessions.get(body["session"]), body["name"]
        if not CHECKPOINT_NAME.fullmatch(name):
            message = f"name must be letters, digits, '.', '_' and '-', at most 64, got {name[:80]!r}. Choose another."
            raise RequestError(400, "ArgumentError", message)
        edits = self._history(request, session).edits
        if not edits:
            raise RequestError(400, "ArgumentError", "There are no edits to save. Make one first.")
        run = await self._some_run(request, session.id).ready()
        path = self.state.settings.save / name

        def write() -> dict[str, Any]:
            from headwise.server.payloads.saved_checkpoint import save_checkpoint

            return save_checkpoint(self.state.models.ready(request.path_params["model"]), run, edits, path)

        saved = await self.state.threads.run(write)
        added = self.state.models.add(path, self.state.models.get(request.path_params["model"]))
        return json_response({**saved, "model": added.id}, 201)

    async def effect(self, request: Request) -> Response:
        """The effect of the session's edits on the model's output."""
        cached = self.state.runs.get(request.path_params["id"])
        run = await cached.ready()
        session = self.state.sessions.get(request.query_params.get("session", ""))
        edits = self._history_of(session, cached.model).edits

        def measure() -> dict[str, Any]:
            from headwise.server.payloads.edit_measurements import measure_effect

            return measure_effect(self.state.models.ready(cached.model), run, edits)

        return json_response(await cached.once(("effect", edits), lambda: self.state.threads.run(measure)))

    async def dose(self, request: Request) -> Response:
        """The effect of nine scales of a head, on top of the session's other edits."""
        cached = self.state.runs.get(request.path_params["id"])
        run = await cached.ready()
        session = self.state.sessions.get(request.query_params.get("session", ""))
        part = request.query_params.get("part", cached.facts["parts"][0]["name"])
        place, head = find_place(run, part, *(request.path_params[name] for name in ("layer", "head"))), request.path_params["head"]
        others = tuple(one for one in self._history_of(session, cached.model).edits if one.place != (part, place.layer, head))

        def measure() -> dict[str, Any]:
            from headwise.server.payloads.edit_measurements import measure_dose

            return measure_dose(self.state.models.ready(cached.model), run, place, head, others)

        return json_response(await cached.once(("dose", part, place.layer, head, others), lambda: self.state.threads.run(measure)))

    async def _writing_session(self, request: Request) -> PageSession:
        check_token(request.scope)
        return self.state.sessions.get((await read_body(request, {"session": str}))["session"])

    def _history(self, request: Request, session: PageSession) -> EditHistory:
        return self._history_of(session, self.state.models.get(request.path_params["model"]).id)

    @staticmethod
    def _history_of(session: PageSession, model: str) -> EditHistory:
        return session.edits.setdefault(model, EditHistory())

    def _some_run(self, request: Request, session: str) -> CachedRun:
        """A run of the model, which shows where its heads are.

        Raises:
            RequestError: the session has none.
        """
        model = self.state.models.get(request.path_params["model"]).id
        found = [cached for cached in self.state.runs.runs.values() if cached.model == model and session in cached.sessions]
        if not found:
            raise RequestError(410, "RunGone", f"This session has no run of {model}. Run a text first.")
        return found[-1]

    async def _edits(self, request: Request, session: PageSession) -> Response:
        """The list of edits, and the tensors that a checkpoint with them would change."""
        history = self._history(request, session)
        model = self.state.models.get(request.path_params["model"])
        data: dict[str, Any] = {"edits": [vars(edit) for edit in history.edits], "undo": len(history.past), "redo": len(history.future)}
        data |= {"tensors": [], "of_tensors": entry(model).get("tensors", 0)}
        if history.edits:
            run = await self._some_run(request, session.id).ready()
            data["tensors"] = await self.state.threads.look(changed_tensors, run, history.edits)
        return json_response(data)


def changed_tensors(run: "Run", edits: Sequence[HeadScale]) -> list[str]:
    """The parameters that a checkpoint with these edits changes: the blocks of W_O that the scales are multiplied into.

    Raises:
        WritesRefused: heads cannot be told apart before W_O.
    """
    from headwise.models.parameters.head_blocks import output_block

    sites, hf = run.forward_pass.layout.sites, run.forward_pass.hf
    places = [find_place(run, edit.part, edit.layer, edit.head) for edit in edits]
    return sorted({output_block(hf, sites[place.index], place.heads, edit.head).parameter for place, edit in zip(places, edits, strict=True)})

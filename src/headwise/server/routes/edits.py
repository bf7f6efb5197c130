"""Routes about edits: heads that say more or less, what that does, and the checkpoint that comes of it."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwise.errors import ArgumentError
from headwise.server.guard import check_token
from headwise.server.responses import Denied, body_of, said
from headwise.server.state.app_state import Desk
from headwise.server.state.edit_history import Edit, History
from headwise.server.state.model_library import entry
from headwise.server.state.run_cache import Held
from headwise.server.state.sessions import Session

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place

LARGEST = 16.0
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


def routes(desk: Desk) -> list[Route]:
    """Every route that begins with /api/edits, and what edits do to a run."""
    found = Edits(desk)
    return [
        Route("/api/edits/{model}", found.get),
        Route("/api/edits/{model}", found.put, methods=["POST"]),
        Route("/api/edits/{model}", found.drop, methods=["DELETE"]),
        Route("/api/edits/{model}/undo", found.undo, methods=["POST"]),
        Route("/api/edits/{model}/redo", found.redo, methods=["POST"]),
        Route("/api/edits/{model}/save", found.save, methods=["POST"]),
        Route("/api/runs/{id}/effect", found.effect),
        Route("/api/runs/{id}/dose/{layer:int}/{head:int}", found.dose),
    ]


class Edits:
    """The handlers, with the desk that they stand at."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def get(self, request: Request) -> Response:
        session = self.desk.hub.get(request.query_params.get("session", ""))
        return await self._told(request, session)

    async def put(self, request: Request) -> Response:
        """A head is to say so many times what it says."""
        check_token(request.scope)
        asked = await body_of(request, {"session": str, "part": str, "layer": int, "head": int, "scale": float})
        session, run = self.desk.hub.get(asked["session"]), await self._some_run(request, asked["session"]).whole()
        if not 0 <= asked["scale"] <= LARGEST:
            raise Denied(400, "ArgumentError", f"scale must be in 0..{LARGEST:g}, got {asked['scale']}. 0 silences a head, 1 leaves it as it is.")
        place = place_of(run, asked["part"], asked["layer"], asked["head"])
        self._history(request, session).put(Edit(place.part, place.layer, asked["head"], float(asked["scale"])))
        return await self._told(request, session)

    async def drop(self, request: Request) -> Response:
        """One head's edit is taken away, or all."""
        check_token(request.scope)
        query = request.query_params
        session = self.desk.hub.get(query.get("session", ""))
        given = [query.get(name) for name in ("part", "layer", "head")]
        if any(given) and not all(given):
            raise Denied(400, "ArgumentError", f"part, layer and head must come together, got {', '.join(query)}. Give all, or none for all edits.")
        numbers = [int(word) if word is not None and word.isdecimal() and len(word) < 10 else -1 for word in given[1:]]
        self._history(request, session).drop((given[0], *numbers) if given[0] is not None else None)  # pyright: ignore[reportArgumentType]
        return await self._told(request, session)

    async def undo(self, request: Request) -> Response:
        session = await self._writer(request)
        self._history(request, session).undo()
        return await self._told(request, session)

    async def redo(self, request: Request) -> Response:
        session = await self._writer(request)
        self._history(request, session).redo()
        return await self._told(request, session)

    async def save(self, request: Request) -> Response:
        """The edits as a checkpoint of their own."""
        check_token(request.scope)
        asked = await body_of(request, {"session": str, "name": str})
        session, name = self.desk.hub.get(asked["session"]), asked["name"]
        if not NAME.fullmatch(name):
            raise Denied(400, "ArgumentError", f"name must be letters, digits, '.', '_' and '-', at most 64, got {name[:80]!r}. Choose another.")
        edits = self._history(request, session).edits
        if not edits:
            raise Denied(400, "ArgumentError", "a checkpoint must have an edit, got none. Make one first.")
        run = await self._some_run(request, session.id).whole()
        path = self.desk.settings.save / name

        def write() -> dict[str, Any]:
            from headwise.server.payloads.saved_checkpoint import save

            return save(self.desk.library.ready(request.path_params["model"]), run, edits, path)

        told = await self.desk.work.run(write)
        added = self.desk.library.add(path, self.desk.library.get(request.path_params["model"]))
        return said({**told, "model": added.id}, 201)

    async def effect(self, request: Request) -> Response:
        """What the session's edits do to what the model says in the end."""
        held = self.desk.keep.get(request.path_params["id"])
        run = await held.whole()
        session = self.desk.hub.get(request.query_params.get("session", ""))
        edits = self._history_of(session, held.model).edits

        def measure() -> dict[str, Any]:
            from headwise.server.payloads.edit_measurements import effect

            return effect(self.desk.library.ready(held.model), run, edits)

        return said(await held.once(("effect", edits), lambda: self.desk.work.run(measure)))

    async def dose(self, request: Request) -> Response:
        """What nine scales of a head do, upon the session's other edits."""
        held = self.desk.keep.get(request.path_params["id"])
        run = await held.whole()
        session = self.desk.hub.get(request.query_params.get("session", ""))
        part = request.query_params.get("part", held.facts["parts"][0]["name"])
        place, head = place_of(run, part, *(request.path_params[name] for name in ("layer", "head"))), request.path_params["head"]
        others = tuple(one for one in self._history_of(session, held.model).edits if one.place != (part, place.layer, head))

        def measure() -> dict[str, Any]:
            from headwise.server.payloads.edit_measurements import dose

            return dose(self.desk.library.ready(held.model), run, place, head, others)

        return said(await held.once(("dose", part, place.layer, head, others), lambda: self.desk.work.run(measure)))

    async def _writer(self, request: Request) -> Session:
        check_token(request.scope)
        return self.desk.hub.get((await body_of(request, {"session": str}))["session"])

    def _history(self, request: Request, session: Session) -> History:
        return self._history_of(session, self.desk.library.get(request.path_params["model"]).id)

    @staticmethod
    def _history_of(session: Session, model: str) -> History:
        return session.edits.setdefault(model, History())

    def _some_run(self, request: Request, session: str) -> Held:
        """A run of the model, by which its heads are known.

        Raises:
            Denied: the session has none.
        """
        model = self.desk.library.get(request.path_params["model"]).id
        found = [held for held in self.desk.keep.runs.values() if held.model == model and session in held.sessions]
        if not found:
            raise Denied(410, "RunGone", f"a text must have been read by {model} first, got none in this session. Run one.")
        return found[-1]

    async def _told(self, request: Request, session: Session) -> Response:
        """The list of edits, and the tensors that a checkpoint of them would change."""
        history = self._history(request, session)
        model = self.desk.library.get(request.path_params["model"])
        told: dict[str, Any] = {"edits": [vars(edit) for edit in history.edits], "undo": len(history.past), "redo": len(history.future)}
        told |= {"tensors": [], "of_tensors": entry(model).get("tensors", 0)}
        if history.edits:
            run = await self._some_run(request, session.id).whole()
            told["tensors"] = await self.desk.work.look(tensors, run, history.edits)
        return said(told)


def place_of(run: "Run", part: str, layer: int, head: int) -> "Place":
    """The attention call that a head is of.

    Raises:
        ArgumentError: there is no such head.
    """
    found = next((place for place in run.places if (place.part, place.layer) == (part, layer)), None)
    if found is None or not 0 <= head < found.heads:
        raise ArgumentError(f"a head must be one of the model's, got layer {layer}, head {head} of part {part[:40]!r}. Choose another.")
    return found


def tensors(run: "Run", edits: Sequence[Edit]) -> list[str]:
    """The parameters that a checkpoint of these edits changes: the blocks of W_O, in which a head's scale goes up.

    Raises:
        WritesRefused: heads cannot be told apart before W_O.
    """
    from headwise.models.parameters.head_blocks import output_block

    sites, hf = run.forward_pass.layout.sites, run.forward_pass.hf
    places = [place_of(run, edit.part, edit.layer, edit.head) for edit in edits]
    return sorted({output_block(hf, sites[place.index], place.heads, edit.head).parameter for place, edit in zip(places, edits, strict=True)})

"""Routes about the server itself, and about what needs no model: state, sessions, events, the five moves, what can be checked."""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headwise import __version__
from headwise.server.guard import BODY_BYTES
from headwise.server.payloads.sample_texts import CHARACTERS
from headwise.server.responses import said
from headwise.server.routes.runs import CELLS
from headwise.server.state.app_state import Desk, abilities
from headwise.server.state.edit_history import EDITS
from headwise.server.state.run_cache import once
from headwise.server.work import transformers_import as imports
from headwise.server.work.background_jobs import AT_ONCE

OURS = "headwise:attend"


def routes(desk: Desk) -> list[Route]:
    found = About(desk)
    return [
        Route("/api/state", found.state),
        Route("/api/models/{id}/open", found.open, methods=["POST"]),
        Route("/api/sessions", found.begin, methods=["POST"]),
        Route("/api/events", found.events),
        Route("/api/moves", found.moves),
        Route("/api/check", found.check),
        Route("/api/kills", found.kills),
        Route("/api/claims", found.claims),
        Route("/api/roles", found.roles),
    ]


class About:
    """The handlers, with the desk that they stand at."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def state(self, request: Request) -> Response:
        settings = self.desk.settings
        limits = {"text_characters": CHARACTERS, "body_bytes": BODY_BYTES, "edits": EDITS, "cells": CELLS, "jobs": AT_ONCE}
        compare = None if settings.compare is None else dict(zip(("base", "tuned"), map(self.desk.library.named, settings.compare), strict=True))
        return said(
            {
                "version": __version__,
                "may_write": request.scope["state"]["may_write"],
                "limits": limits,
                "can": sorted(abilities()),
                "models": self.desk.library.entries(),
                "texts": [{"id": id, **text} for id, text in self.desk.texts.items()],
                "compare": compare,
                "subjects": list(settings.subjects),
            }
        )

    async def open(self, request: Request) -> Response:
        """Begin to open a model."""
        found = self.desk.library.open(request.path_params["id"])
        return said({"id": found.id, "state": found.state}, 202)

    async def begin(self, request: Request) -> Response:
        return said({"session": self.desk.hub.open().id}, 201)

    async def events(self, request: Request) -> Response:
        session = self.desk.hub.get(request.query_params.get("session", ""))
        return StreamingResponse(
            self.desk.hub.listen(session), media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )

    async def moves(self, request: Request) -> Response:
        return said(await self.desk.work.look(_moves))

    async def check(self, request: Request) -> Response:
        """What can be checked."""
        return said({"subjects": [*await self.desk.work.look(_peers), *(_own(name) for name in (OURS, *self.desk.settings.subjects))]})

    async def kills(self, request: Request) -> Response:
        from headwise.server.state.build_info import kills

        return said(await self.desk.work.look(kills))

    async def roles(self, request: Request) -> Response:
        """The roles that heads can be asked for here, by name."""
        return said({"roles": await self.desk.work.look(_playable)})

    async def claims(self, request: Request) -> Response:
        """What is said about heads, with the cards that a model has already; nothing is measured."""
        asked = request.query_params.get("model")
        model = None if asked is None else await self.desk.library.opened(asked)
        every = await self.desk.work.look(_claims)
        if model is None:
            return said({"model": None, "claims": await self.desk.work.look(every, None)})
        from headwise.experiments.available_results import AvailableResults

        hand = await once(self.desk.hands, asked, lambda: self.desk.work.look(AvailableResults, model))
        return said({"model": asked, "claims": await self.desk.work.look(every, hand)})


def _claims() -> Callable[..., Any]:
    imports.transformers()
    from headwise.server.payloads.claim_cards import every

    return every


def _playable() -> list[dict[str, str]]:
    imports.transformers()
    from headwise.server.payloads.played_roles import playable

    return playable()


def _moves() -> dict[str, Any]:
    from headwise.server.payloads.moves import moves

    return moves()


def _peers() -> list[dict[str, Any]]:
    """Every attention of the field that is known by name, and whether its package is there."""
    from importlib.util import find_spec

    imports.transformers()
    from headwise.conformance.adapters.find import peers

    return [
        {"name": name, "statement": entry.statement, "installed": all(find_spec(module) is not None for module in entry.needs), "needs": list(entry.needs)}
        for name, entry in peers().items()
    ]


def _own(name: str) -> dict[str, Any]:
    return {"name": name, "statement": "our own" if name == OURS else "named at start", "installed": True, "needs": []}

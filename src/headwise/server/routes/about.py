"""Routes about the server itself, and those that need no run: state, sessions, events, the five moves, what can be checked, claims, roles."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headwise import __version__
from headwise.server.guard import BODY_BYTES
from headwise.server.responses import json_response
from headwise.server.routes.runs import MAX_CELLS
from headwise.server.state.app_state import AppState, available_features
from headwise.server.state.build_info import kill_matrix
from headwise.server.state.edit_history import MAX_EDITS
from headwise.server.state.jobs import MAX_RUNNING
from headwise.server.state.run_cache import once
from headwise.server.state.sample_texts import MAX_CHARACTERS
from headwise.server.work.transformers_import import import_transformers

if TYPE_CHECKING:
    from headwise.experiments.available_results import AvailableResults

OURS = "headwise:attend"


def routes(state: AppState) -> list[Route]:
    handlers = AboutRoutes(state)
    return [
        Route("/api/state", handlers.server_state),
        Route("/api/models/{id}/open", handlers.open_model, methods=["POST"]),
        Route("/api/sessions", handlers.new_session, methods=["POST"]),
        Route("/api/events", handlers.events),
        Route("/api/moves", handlers.moves),
        Route("/api/check", handlers.check_subjects),
        Route("/api/kill-matrix", handlers.kill_matrix),
        Route("/api/claims", handlers.claims),
        Route("/api/roles", handlers.roles),
    ]


class AboutRoutes:
    """The handlers, and the state that they work on."""

    def __init__(self, state: AppState) -> None:
        self.state = state

    async def server_state(self, request: Request) -> Response:
        settings = self.state.settings
        limits = {"text_characters": MAX_CHARACTERS, "body_bytes": BODY_BYTES, "edits": MAX_EDITS, "cells": MAX_CELLS, "jobs": MAX_RUNNING}
        compare = None if settings.compare is None else dict(zip(("base", "tuned"), map(self.state.models.named, settings.compare), strict=True))
        return json_response(
            {
                "version": __version__,
                "may_write": request.scope["state"]["may_write"],
                "limits": limits,
                "can": sorted(available_features()),
                "models": self.state.models.entries(),
                "texts": [{"id": id, **text} for id, text in self.state.texts.items()],
                "compare": compare,
                "subjects": list(settings.subjects),
            }
        )

    async def open_model(self, request: Request) -> Response:
        """Begin to open a model."""
        found = self.state.models.open(request.path_params["id"])
        return json_response({"id": found.id, "state": found.state}, 202)

    async def new_session(self, request: Request) -> Response:
        return json_response({"session": self.state.sessions.open().id}, 201)

    async def events(self, request: Request) -> Response:
        session = self.state.sessions.get(request.query_params.get("session", ""))
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self.state.sessions.stream(session), media_type="text/event-stream", headers=headers)

    async def moves(self, request: Request) -> Response:
        return json_response(await self.state.threads.look(_moves))

    async def check_subjects(self, request: Request) -> Response:
        """The attention implementations that can be checked."""
        own = [_own_subject(name) for name in (OURS, *self.state.settings.subjects)]
        return json_response({"subjects": [*await self.state.threads.look(_known_subjects), *own]})

    async def kill_matrix(self, request: Request) -> Response:
        return json_response(await self.state.threads.look(kill_matrix))

    async def roles(self, request: Request) -> Response:
        """The roles that heads can be tested for."""
        return json_response({"roles": await self.state.threads.look(_roles)})

    async def claims(self, request: Request) -> Response:
        """Claims about heads, with the cards that a model already has; nothing is measured."""
        id = request.query_params.get("model")
        model = None if id is None else await self.state.models.opened(id)
        claims_with_cards = await self.state.threads.look(_claims)
        if model is None:
            return json_response({"model": None, "claims": await self.state.threads.look(claims_with_cards, None)})
        from headwise.experiments.available_results import AvailableResults

        results = await once(self.state.claim_results, id, lambda: self.state.threads.look(AvailableResults, model))
        return json_response({"model": id, "claims": await self.state.threads.look(claims_with_cards, results)})


def _claims() -> "Callable[[AvailableResults | None], list[dict[str, Any]]]":
    import_transformers()
    from headwise.server.payloads.claim_cards import claims_with_cards

    return claims_with_cards


def _roles() -> list[dict[str, str]]:
    import_transformers()
    from headwise.server.payloads.role_scores import testable_roles

    return testable_roles()


def _moves() -> dict[str, Any]:
    from headwise.server.payloads.moves import moves_data

    return moves_data()


def _known_subjects() -> list[dict[str, Any]]:
    """Every attention implementation that is known by name, and whether its package is installed."""
    from importlib.util import find_spec

    import_transformers()
    from headwise.conformance.adapters.resolve import peers

    return [
        {"name": name, "statement": entry.statement, "installed": all(find_spec(module) is not None for module in entry.needs), "needs": list(entry.needs)}
        for name, entry in peers().items()
    ]


def _own_subject(name: str) -> dict[str, Any]:
    return {"name": name, "statement": "headwise's own" if name == OURS else "named at start", "installed": True, "needs": []}

"""Routes about runs: a text run through a model, and every number of that run."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwise.errors import RequestError
from headwise.server.payloads.tensor_payload import to_safetensors
from headwise.server.responses import BINARY, CACHED, array_response, choice_parameter, integer_parameter, json_response, read_body
from headwise.server.state.app_state import AppState
from headwise.server.state.first_view import head_means, show_first_view, store_first_view
from headwise.server.state.run_cache import CachedRun
from headwise.server.state.sample_texts import THUMBNAIL

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place

MAX_CELLS = 1 << 20  # weights in one response


def routes(state: AppState) -> list[Route]:
    """Every route that begins with /api/runs."""
    handlers = RunRoutes(state)
    head = "/api/runs/{id}/%s/{layer:int}/{head:int}"
    tile = head % "tiles" + "/{level:int}/{column:int}/{row:int}"
    return [
        Route("/api/runs", handlers.post, methods=["POST"]),
        Route("/api/runs/{id}", handlers.delete, methods=["DELETE"]),
        Route("/api/runs/{id}", handlers.facts),
        Route("/api/runs/{id}/grid", handlers.grid),
        Route("/api/runs/{id}/writes", handlers.writes),
        Route("/api/runs/{id}/thumbnails", handlers.thumbnails),
        Route(head % "heads", handlers.head),
        Route(head % "weights", handlers.weights),
        Route(tile, handlers.tile),
        Route(tile + ".png", handlers.image),
        Route("/api/runs/{id}/proof", handlers.proof),
        Route(head % "certificate" + "/{query:int}", handlers.certificate),
    ]


class RunRoutes:
    """The handlers, and the state that they work on."""

    def __init__(self, state: AppState) -> None:
        self.state = state

    async def post(self, request: Request) -> Response:
        """Run a text."""
        body = await read_body(request, {"session": str, "model": str, "text": str})
        state, session = self.state, self.state.sessions.get(body["session"])
        entry = state.models.get(body["model"])
        if entry.state == "loading" and entry.first_view is not None and entry.first_view.text == body["text"]:
            return json_response(show_first_view(state, entry, entry.first_view, session.id).facts)
        model = await state.models.opened(body["model"])

        async def read() -> "tuple[Run, dict[str, Any]]":
            from headwise.server.payloads.text_run import read_text

            run, facts = await state.threads.run(read_text, model, body["text"])
            return run, {"model": body["model"], **facts}

        with state.sessions.busy(session):
            cached = await state.runs.run(body["model"], body["text"], session.id, read)
        if session.id not in state.sessions.sessions:
            state.runs.leave(session.id)
        return json_response(cached.facts)

    async def facts(self, request: Request) -> Response:
        return json_response(self._run(request).facts)

    async def delete(self, request: Request) -> Response:
        """The session no longer looks at this run."""
        self.state.runs.leave(self.state.sessions.get(request.query_params.get("session", "")).id, self._run(request).id)
        return Response(status_code=204)

    async def grid(self, request: Request) -> Response:
        cached, part = self._part(request)
        return array_response(await head_means(self.state, cached, "grid", part), part=part)

    async def writes(self, request: Request) -> Response:
        cached, part = self._part(request)
        return array_response(await head_means(self.state, cached, "writes", part), part=part)

    async def thumbnails(self, request: Request) -> Response:
        """Block mass of every head of some layers, in 8 bits."""
        cached, part = self._part(request)
        layers = next(one["layers"] for one in cached.facts["parts"] if one["name"] == part)
        size = integer_parameter(request, "size", THUMBNAIL, 4, 64)
        first = integer_parameter(request, "first", 0, 0, layers - 1)
        count = integer_parameter(request, "count", layers - first, 1, layers - first)
        compute = partial(_thumbnails, cached, part, slice(first, first + count), size)
        response = await self._kept(cached, ("thumbnails", part, size, first, count), compute)
        store_first_view(self.state, cached)
        return response

    async def head(self, request: Request) -> Response:
        """Statistics and writes of one head, for each token."""
        cached, place, head = await self._head(request)
        from headwise.server.payloads.text_run import per_token

        found = await self.state.threads.look(per_token, cached.run, place.part, place.layer, head)
        return array_response(found, part=place.part)

    async def weights(self, request: Request) -> Response:
        """Exact weights of a rectangle."""
        cached, place, head = await self._head(request)
        from headwise.server.payloads.weight_maps import rectangle

        rows, keys = _range(request, "rows", place.queries), _range(request, "keys", place.keys)
        cells = (rows.stop - rows.start) * (keys.stop - keys.start)
        if cells > MAX_CELLS:
            raise RequestError(413, "TooLarge", f"rows and keys must span at most {MAX_CELLS} weights, got {cells}. Request fewer, or tiles.")
        found = await self.state.threads.look(rectangle, cached.run, place, head, rows, keys)
        return array_response({"weights": found.float().numpy()}, rows=[rows.start, rows.stop], keys=[keys.start, keys.stop])

    async def tile(self, request: Request) -> Response:
        """256 x 256 pixels of a head's map."""
        cached, place, head = await self._head(request)
        position, pool = _tile_position(request), choice_parameter(request, "pool", ("max", "mean"))
        return await self._kept(cached, ("tile", place.index, head, position, pool), partial(_tile, cached, place, head, position, pool))

    async def image(self, request: Request) -> Response:
        """The same tile in colours."""
        cached, place, head = await self._head(request)
        position, pool = _tile_position(request), choice_parameter(request, "pool", ("max", "mean"))
        colours = choice_parameter(request, "ramp", ("light", "dark")), choice_parameter(request, "scale", ("sqrt", "lin", "log"))
        name = ("png", place.index, head, position, pool, colours)
        return await self._kept(cached, name, partial(_image, cached, place, head, position, pool, colours), "image/png")

    async def proof(self, request: Request) -> Response:
        cached = self._run(request)
        run = await cached.ready()
        from headwise.server.payloads.proof import proof_data

        return json_response(await cached.once("proof", lambda: self.state.threads.prove(proof_data, run)))

    async def certificate(self, request: Request) -> Response:
        """A proved bound on the error of a row of weights."""
        cached, place, head = await self._head(request)
        from headwise.server.payloads.certified_row import certify_row

        query = request.path_params["query"]
        if query >= place.queries:
            raise RequestError(404, "NotFound", f"query must be in 0..{place.queries - 1}, got {query}. Choose one of these.")
        name = ("certificate", place.index, head, query)
        return json_response(await cached.once(name, lambda: self.state.threads.prove(certify_row, cached.run, place, head, query)))

    def _run(self, request: Request) -> CachedRun:
        """The run that a path names, or what is shown until it is there."""
        cached = self.state.runs.get(request.path_params["id"])
        for session in cached.sessions:
            self.state.sessions.touch(session)
        return cached

    def _part(self, request: Request) -> tuple[CachedRun, str]:
        cached = self._run(request)
        parts = [part["name"] for part in cached.facts["parts"]]
        return cached, choice_parameter(request, "part", tuple(parts))

    async def _head(self, request: Request) -> "tuple[CachedRun, Place, int]":
        """The head that a path names."""
        cached, part = self._part(request)
        layers, (layer, head) = _layers(await cached.ready(), part), (request.path_params[name] for name in ("layer", "head"))
        if layer >= len(layers) or head >= layers[layer].heads:
            message = f"Part {part!r} has {len(layers)} layers and no head {layer}.{head}. Choose another."
            raise RequestError(404, "NotFound", message)
        return cached, layers[layer], head

    async def _kept(self, cached: CachedRun, name: Hashable, compute: Callable[[], bytes], media_type: str = BINARY) -> Response:
        """A response that is kept once it was computed."""
        content = cached.known(name)
        if content is None:
            await cached.ready()
            content = cached.remember(name, await self.state.threads.look(compute))
        return Response(content, media_type=media_type, headers=CACHED)


def _layers(run: "Run", part: str) -> "list[Place]":
    return [place for place in run.places if place.part == part]


def _thumbnails(cached: CachedRun, part: str, layers: slice, size: int) -> bytes:
    from headwise.server.payloads.weight_maps import thumbnails

    return thumbnails(cached.run, part, layers, size)


def _tile(cached: CachedRun, place: "Place", head: int, position: tuple[int, int, int], pool: str) -> bytes:
    import torch

    from headwise.server.payloads.weight_maps import tile, top_level

    found = tile(cached.run, place, head, position, pool)
    return to_safetensors({"tile": found.to(torch.float16).numpy()}, {"cell": 1 << (top_level(place) - position[0]), "encoding": "float16"})


def _image(cached: CachedRun, place: "Place", head: int, position: tuple[int, int, int], pool: str, colours: tuple[str, str]) -> bytes:
    from headwise.server.payloads.tile_png import tile_png
    from headwise.server.payloads.weight_maps import tile

    return tile_png(tile(cached.run, place, head, position, pool), *colours)


def _tile_position(request: Request) -> tuple[int, int, int]:
    return tuple(request.path_params[name] for name in ("level", "column", "row"))  # pyright: ignore[reportReturnType]


def _range(request: Request, name: str, length: int) -> slice:
    """FIRST:STOP in the query string; everything when absent."""
    value = request.query_params.get(name, f"0:{length}")
    first, colon, stop = value.partition(":")
    if not (colon and first.isdecimal() and stop.isdecimal() and len(value) < 32 and int(first) < int(stop) <= length):
        raise RequestError(400, "ArgumentError", f"{name} must be FIRST:STOP within 0:{length}, got {value[:40]!r}. Correct it.")
    return slice(int(first), int(stop))

"""Routes about runs: a text read by a model, and every number of it."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwise.server.payloads.array_pack import pack
from headwise.server.payloads.sample_texts import THUMBNAIL
from headwise.server.responses import STAYS, Denied, body_of, numbers, one_of, said, whole
from headwise.server.state.app_state import Desk
from headwise.server.state.first_view import foreseen, keep_seen, looked
from headwise.server.state.run_cache import Held

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place

CELLS = 1 << 20  # weights in one answer
BINARY = "application/octet-stream"


def routes(desk: Desk) -> list[Route]:
    """Every route that begins with /api/runs."""
    found = Runs(desk)
    head = "/api/runs/{id}/%s/{layer:int}/{head:int}"
    tile = head % "tiles" + "/{level:int}/{column:int}/{row:int}"
    return [
        Route("/api/runs", found.post, methods=["POST"]),
        Route("/api/runs/{id}", found.delete, methods=["DELETE"]),
        Route("/api/runs/{id}", found.facts),
        Route("/api/runs/{id}/grid", found.grid),
        Route("/api/runs/{id}/writes", found.writes),
        Route("/api/runs/{id}/thumbnails", found.thumbnails),
        Route(head % "heads", found.head),
        Route(head % "weights", found.weights),
        Route(tile, found.tile),
        Route(tile + ".png", found.picture),
        Route("/api/runs/{id}/proof", found.proof),
        Route(head % "certificate" + "/{query:int}", found.certificate),
    ]


class Runs:
    """The handlers, with the desk that they stand at."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def post(self, request: Request) -> Response:
        """Read a text."""
        asked = await body_of(request, {"session": str, "model": str, "text": str})
        desk, session = self.desk, self.desk.hub.get(asked["session"])
        shelved = desk.library.get(asked["model"])
        if shelved.state == "loading" and shelved.seen is not None and shelved.seen.text == asked["text"]:
            return said(foreseen(desk, shelved, shelved.seen, session.id).facts)
        model = await desk.library.opened(asked["model"])

        async def make() -> Any:
            from headwise.server.payloads.text_run import read

            run, facts = await desk.work.run(read, model, asked["text"])
            return run, {"model": asked["model"], **facts}

        with desk.hub.busy(session):
            held = await desk.keep.run(asked["model"], asked["text"], session.id, make)
        if session.id not in desk.hub.sessions:
            desk.keep.leave(session.id)
        return said(held.facts)

    async def facts(self, request: Request) -> Response:
        return said(self._shown(request).facts)

    async def delete(self, request: Request) -> Response:
        """The session looks at this run no more."""
        self.desk.keep.leave(self.desk.hub.get(request.query_params.get("session", "")).id, self._shown(request).id)
        return Response(status_code=204)

    async def grid(self, request: Request) -> Response:
        held, part = self._part(request)
        return numbers(await looked(self.desk, held, "grid", part), part=part)

    async def writes(self, request: Request) -> Response:
        held, part = self._part(request)
        return numbers(await looked(self.desk, held, "writes", part), part=part)

    async def thumbnails(self, request: Request) -> Response:
        """Block mass of every head of some layers, in 8 bits."""
        held, part = self._part(request)
        layers = next(one["layers"] for one in held.facts["parts"] if one["name"] == part)
        size = whole(request, "size", THUMBNAIL, 4, 64)
        first = whole(request, "first", 0, 0, layers - 1)
        count = whole(request, "count", layers - first, 1, layers - first)
        answer = await self._ready(held, ("thumbnails", part, size, first, count), partial(_thumbnails, held, part, slice(first, first + count), size))
        keep_seen(self.desk, held)
        return answer

    async def head(self, request: Request) -> Response:
        """Statistics and writes of each token of a head."""
        held, place, head = await self._place(request)
        from headwise.server.payloads.text_run import by_token

        found = await self.desk.work.look(by_token, held.run, place.part, place.layer, head)
        return numbers(found, part=place.part)

    async def weights(self, request: Request) -> Response:
        """Exact weights of a rectangle."""
        held, place, head = await self._place(request)
        from headwise.server.payloads.weight_maps import rectangle

        rows, keys = _span(request, "rows", place.queries), _span(request, "keys", place.keys)
        cells = (rows.stop - rows.start) * (keys.stop - keys.start)
        if cells > CELLS:
            raise Denied(413, "TooLarge", f"rows and keys must span at most {CELLS} weights, got {cells}. Ask for fewer, or for tiles.")
        found = await self.desk.work.look(rectangle, held.run, place, head, rows, keys)
        return numbers({"weights": _float32(found)}, rows=[rows.start, rows.stop], keys=[keys.start, keys.stop])

    async def tile(self, request: Request) -> Response:
        """256 x 256 pixels of a head's map."""
        held, place, head = await self._place(request)
        where, pool = _where(request), one_of(request, "pool", ("max", "mean"))
        return await self._ready(held, ("tile", place.index, head, where, pool), partial(_tile, held, place, head, where, pool))

    async def picture(self, request: Request) -> Response:
        """The same in colours."""
        held, place, head = await self._place(request)
        where, pool = _where(request), one_of(request, "pool", ("max", "mean"))
        look = one_of(request, "ramp", ("light", "dark")), one_of(request, "scale", ("sqrt", "lin", "log"))
        name = ("png", place.index, head, where, pool, look)
        return await self._ready(held, name, partial(_picture, held, place, head, where, pool, look), "image/png")

    async def proof(self, request: Request) -> Response:
        held = self._shown(request)
        run = await held.whole()
        from headwise.server.payloads.proof import proved

        return said(await held.once("proof", lambda: self.desk.work.prove(proved, run)))

    async def certificate(self, request: Request) -> Response:
        """The true error of a row's weights, proved."""
        held, place, head = await self._place(request)
        from headwise.server.payloads.certified_row import certified

        query = request.path_params["query"]
        if query >= place.queries:
            raise Denied(404, "NotFound", f"query must be in 0..{place.queries - 1}, got {query}. Choose one of these.")
        return said(await held.once(("certificate", place.index, head, query), lambda: self.desk.work.prove(certified, held.run, place, head, query)))

    def _shown(self, request: Request) -> Held:
        """A run, or what is shown until it is there."""
        held = self.desk.keep.get(request.path_params["id"])
        for session in held.sessions:
            self.desk.hub.touch(session)
        return held

    def _part(self, request: Request) -> tuple[Held, str]:
        held = self._shown(request)
        parts = [part["name"] for part in held.facts["parts"]]
        return held, one_of(request, "part", tuple(parts))

    async def _place(self, request: Request) -> "tuple[Held, Place, int]":
        """The head that a path names."""
        held, part = self._part(request)
        layers, (layer, head) = _layers(await held.whole(), part), (request.path_params[name] for name in ("layer", "head"))
        if layer >= len(layers) or head >= layers[layer].heads:
            raise Denied(404, "NotFound", f"head must be one of the {len(layers)} layers of part {part!r}, got {layer}.{head}. Choose one of these.")
        return held, layers[layer], head

    async def _ready(self, held: Held, name: Any, make: Callable[[], bytes], kind: str = BINARY) -> Response:
        """An answer that is kept ready once it was made."""
        known = held.known(name)
        if known is None:
            await held.whole()
            known = held.remember(name, await self.desk.work.look(make))
        return Response(known, media_type=kind, headers=STAYS)


def _layers(run: "Run", part: str) -> "list[Place]":
    return [place for place in run.places if place.part == part]


def _thumbnails(held: Held, part: str, some: slice, size: int) -> bytes:
    from headwise.server.payloads.weight_maps import thumbnails

    return thumbnails(held.run, part, some, size)


def _tile(held: Held, place: "Place", head: int, where: tuple[int, int, int], pool: str) -> bytes:
    import torch

    from headwise.server.payloads.weight_maps import tile, top_level

    found = tile(held.run, place, head, where, pool)
    return pack({"tile": found.to(torch.float16).numpy()}, {"cell": 1 << (top_level(place) - where[0]), "encoding": "float16"})


def _picture(held: Held, place: "Place", head: int, where: tuple[int, int, int], pool: str, look: tuple[str, str]) -> bytes:
    from headwise.server.payloads.tile_png import png
    from headwise.server.payloads.weight_maps import tile

    return png(tile(held.run, place, head, where, pool), *look)


def _where(request: Request) -> tuple[int, int, int]:
    return tuple(request.path_params[name] for name in ("level", "column", "row"))  # pyright: ignore[reportReturnType]


def _span(request: Request, name: str, length: int) -> slice:
    """FIRST:STOP of the query; all when absent."""
    word = request.query_params.get(name, f"0:{length}")
    first, colon, stop = word.partition(":")
    if not (colon and first.isdecimal() and stop.isdecimal() and len(word) < 32 and int(first) < int(stop) <= length):
        raise Denied(400, "ArgumentError", f"{name} must be FIRST:STOP within 0:{length}, got {word[:40]!r}. Correct it.")
    return slice(int(first), int(stop))


def _float32(found: Any) -> Any:
    return found.float().numpy()

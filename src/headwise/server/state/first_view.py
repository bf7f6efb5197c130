"""The first view of a model: what was seen at an earlier start until the model is open, held against its own numbers then; and kept for the next start."""

import asyncio
from typing import TYPE_CHECKING, Any

from headwise.server.payloads.sample_texts import TEXTS, THUMBNAIL
from headwise.server.responses import Denied
from headwise.server.state import first_view_cache as kept
from headwise.server.state.app_state import Desk
from headwise.server.state.first_view_cache import Seen
from headwise.server.state.model_library import Shelved, facts
from headwise.server.state.run_cache import Held

if TYPE_CHECKING:
    from headwise.models.run import Run


async def looked(desk: Desk, held: Held, what: str, part: str) -> Any:
    """The mean of every statistic ("grid") or write ("writes") of each head, made when first asked for."""

    async def make() -> Any:
        run = await held.whole()
        from headwise.server.payloads import text_run as reading

        return await desk.work.look(getattr(reading, what), run, part)

    return await held.once((what, part), make)


def foreseen(desk: Desk, shelved: Shelved, seen: Seen, session: str) -> Held:
    """What was seen of a model that is being opened."""

    async def make(held: Held) -> "Run":
        try:
            return await made(held)
        except BaseException:
            shelved.seen = None  # nobody is shown it again
            raise

    async def made(held: Held) -> "Run":
        model = await desk.library.opened(shelved.id)
        from headwise.server.payloads.text_run import grid, read, writes
        from headwise.server.payloads.weight_maps import thumbnails  # not before: opening a model imports the same in its thread

        run, now = await desk.work.run(read, model, seen.text)
        means = {"grid": grid, "writes": writes}
        arrays = {name: await desk.work.look(means[name], run, seen.part) for name in seen.arrays}
        layers = next(one["layers"] for one in now["parts"] if one["name"] == seen.part)
        if not seen.agrees(arrays, await desk.work.look(thumbnails, run, seen.part, slice(0, layers), THUMBNAIL)):
            kept.forget(shelved.source)
            raise Denied(410, "RunGone", "numbers kept from an earlier start must be the model's own, got others. They are dropped: run the text again.")
        held.facts.update({**now, "id": held.id})
        held.made |= {(name, seen.part): _done(arrays[name]) for name in arrays}
        return run

    held = desk.keep.foresee(shelved.id, seen.text, session, seen.facts, make)
    if held.there is None and not held.made:
        held.made |= {(name, seen.part): _done(arrays) for name, arrays in seen.arrays.items()}
        held.remember(_whole(held, seen.part), seen.thumbnails)
    return held


def keep_seen(desk: Desk, held: Held) -> None:
    """Keep a view of a sample text, once it has been shown: the first of each model since the start."""
    shelved = desk.library.get(held.model)
    part = held.facts["parts"][0]["name"]
    thumbnails = held.known(_whole(held, part))
    opened = shelved.model
    if shelved.kept or thumbnails is None or held.there is None or opened is None or not isinstance(shelved.source, str):
        return
    if opened.origin is None or held.text not in [text["text"] for text in TEXTS.values()]:
        return
    shelved.kept = True
    origin, source = opened.origin, shelved.source

    async def later() -> None:
        names = ["grid"] if held.facts["parts"][0]["writes_refused"] else ["grid", "writes"]
        arrays = {name: await looked(desk, held, name, part) for name in names}
        facts_of_run = {name: value for name, value in held.facts.items() if name not in ("id", "model")}
        view = Seen(await desk.work.look(facts, opened), held.text, facts_of_run, part, arrays, thumbnails)
        if not origin.changed():
            await desk.work.look(kept.keep, source, origin, view)

    desk.errand(later())


def keep_run(run: "Run", text: str) -> None:
    """Keep the first view of a sample text that was read elsewhere, so that the page shows it at its first start."""
    from headwise.server.payloads.text_run import facts_of, grid, writes
    from headwise.server.payloads.weight_maps import thumbnails

    model = run.model
    if model is None or model.origin is None or text not in [one["text"] for one in TEXTS.values()]:
        return
    told = facts_of(model, run, text)
    first = told["parts"][0]
    made = {"grid": grid} if first["writes_refused"] else {"grid": grid, "writes": writes}
    arrays = {name: make(run, first["name"]) for name, make in made.items()}
    view = Seen(facts(model), text, told, first["name"], arrays, thumbnails(run, first["name"], slice(0, first["layers"]), THUMBNAIL))
    if not model.origin.changed():
        kept.keep(model.name, model.origin, view)


def _whole(held: Held, part: str) -> tuple[Any, ...]:
    """The name of the answer that holds every thumbnail of a part."""
    layers = next(one["layers"] for one in held.facts["parts"] if one["name"] == part)
    return ("thumbnails", part, THUMBNAIL, 0, layers)


def _done(value: Any) -> asyncio.Future:
    found = asyncio.get_running_loop().create_future()
    found.set_result(value)
    return found

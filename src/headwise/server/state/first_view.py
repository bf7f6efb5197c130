"""The first view of a model: shown from an earlier start while the model is being opened, then compared with the model's own numbers; stored for the next."""

import asyncio
from typing import TYPE_CHECKING

from headwise.errors import RequestError
from headwise.server.state import first_view_cache
from headwise.server.state.app_state import AppState
from headwise.server.state.first_view_cache import Arrays, FirstView
from headwise.server.state.model_library import ModelEntry, model_facts
from headwise.server.state.run_cache import CachedRun
from headwise.server.state.sample_texts import TEXTS, THUMBNAIL

if TYPE_CHECKING:
    from headwise.models.run import Run


async def head_means(state: AppState, cached: CachedRun, name: str, part: str) -> Arrays:
    """The mean of every statistic ("grid") or write ("writes") of each head, computed when first requested."""

    async def compute() -> Arrays:
        run = await cached.ready()
        from headwise.server.payloads import text_run

        return await state.threads.look(getattr(text_run, name), run, part)

    return await cached.once((name, part), compute)


def show_first_view(state: AppState, model: ModelEntry, view: FirstView, session: str) -> CachedRun:
    """The first view of a model that is still being opened; its run follows when it is open.

    When the model's own numbers differ from the stored ones, everything that waits for the run gets RunGone, and the stored view is removed.
    """

    async def read(cached: CachedRun) -> "Run":
        try:
            return await read_and_compare(cached)
        except BaseException:
            model.first_view = None  # it is shown to nobody again
            raise

    async def read_and_compare(cached: CachedRun) -> "Run":
        opened = await state.models.opened(model.id)
        from headwise.server.payloads.text_run import grid, read_text, writes
        from headwise.server.payloads.weight_maps import thumbnails  # not earlier: the thread that opens the model imports the same

        run, facts = await state.threads.run(read_text, opened, view.text)
        means = {"grid": grid, "writes": writes}
        arrays = {name: await state.threads.look(means[name], run, view.part) for name in view.arrays}
        layers = next(part["layers"] for part in facts["parts"] if part["name"] == view.part)
        if not view.agrees(arrays, await state.threads.look(thumbnails, run, view.part, slice(0, layers), THUMBNAIL)):
            if isinstance(model.source, str):
                first_view_cache.remove(model.source)
            raise RequestError(410, "RunGone", "The numbers stored at an earlier start are not those of the model now, and were dropped. Run the text again.")
        cached.facts.pop("from_earlier_start", None)
        cached.facts.update({**facts, "id": cached.id})
        cached.computed |= {(name, view.part): _finished(arrays[name]) for name in arrays}
        return run

    cached = state.runs.expect(model.id, view.text, session, view.facts, read)
    if cached.run_or_none is None and not cached.computed:
        cached.computed |= {(name, view.part): _finished(arrays) for name, arrays in view.arrays.items()}
        cached.remember(_all_thumbnails(cached, view.part), view.thumbnails)
    return cached


def store_first_view(state: AppState, cached: CachedRun) -> None:
    """Store the view of a sample text once it has been shown: the first of each model since the start."""
    model = state.models.get(cached.model)
    part = cached.facts["parts"][0]["name"]
    thumbnails = cached.known(_all_thumbnails(cached, part))
    opened = model.model
    if model.first_view_stored or thumbnails is None or cached.run_or_none is None or opened is None or not isinstance(model.source, str):
        return
    if opened.origin is None or cached.text not in [text["text"] for text in TEXTS.values()]:
        return
    model.first_view_stored = True
    origin, source = opened.origin, model.source

    async def store() -> None:
        names = ["grid"] if cached.facts["parts"][0]["writes_refused"] else ["grid", "writes"]
        arrays = {name: await head_means(state, cached, name, part) for name in names}
        facts = {name: value for name, value in cached.facts.items() if name not in ("id", "model")}
        view = FirstView(await state.threads.look(model_facts, opened), cached.text, facts, part, arrays, thumbnails)
        if not origin.changed():
            await state.threads.look(first_view_cache.store, source, origin, view)

    state.in_background(store())


def prepare_first_view(source: str) -> bool:
    """Open a model, run the page's first sample text, and store the first view, so that the page shows it at its first start.

    Args:
        source: what `open_model` takes. Nothing is computed if its stored first view is still valid.

    Returns:
        Whether a valid first view is stored now; False if the model is not read from files, or they have changed meanwhile.
    """
    if first_view_cache.load(source) is not None:
        return True
    from headwise.models.loading.open_model import open_model
    from headwise.server.payloads.text_run import grid, run_facts, writes
    from headwise.server.payloads.weight_maps import thumbnails

    model, text = open_model(source), next(iter(TEXTS.values()))["text"]
    if model.origin is None:
        return False
    run = model.run(text)
    facts = run_facts(model, run, text)
    first = facts["parts"][0]
    means = {"grid": grid} if first["writes_refused"] else {"grid": grid, "writes": writes}
    arrays = {name: compute(run, first["name"]) for name, compute in means.items()}
    view = FirstView(model_facts(model), text, facts, first["name"], arrays, thumbnails(run, first["name"], slice(0, first["layers"]), THUMBNAIL))
    if model.origin.changed():
        return False
    first_view_cache.store(source, model.origin, view)
    return first_view_cache.load(source) is not None


def _all_thumbnails(cached: CachedRun, part: str) -> tuple[object, ...]:
    """The key of the response that holds every thumbnail of a part."""
    layers = next(one["layers"] for one in cached.facts["parts"] if one["name"] == part)
    return ("thumbnails", part, THUMBNAIL, 0, layers)


def _finished(value: Arrays) -> "asyncio.Future[Arrays]":
    future = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future

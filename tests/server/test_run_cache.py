"""Runs are held within a budget, and computed once however many request them."""

import asyncio

import pytest

from headwise.server.payloads.tensor_payload import from_safetensors, to_safetensors
from headwise.server.state.run_cache import RESPONSE_BYTES, CachedRun, RunCache


class Sized:
    def __init__(self, size):
        self.bytes = size


def test_the_run_used_longest_ago_makes_room():
    async def use():
        cache, made = RunCache(250), []

        def make(text):
            async def now():
                made.append(text)
                return Sized(100), {}

            return now

        first, second = [await cache.run("m", text, "s", make(text)) for text in ("a", "b")]
        cache.get(first.id)
        third = await cache.run("m", "c", "s", make("c"))
        assert list(cache.runs) == [first.id, third.id] and cache.size == 200
        with pytest.raises(RuntimeError, match="Run .* is no longer held: it made room for others, or its tab was closed. Run the text again."):
            cache.get(second.id)
        large = await cache.run("m", "large", "s", make("large"))
        large.run.bytes = 10**9
        assert (await cache.run("m", "d", "s", make("d"))).id in cache.runs and large.id not in cache.runs
        assert made == ["a", "b", "c", "large", "d"]

    asyncio.run(use())


def test_a_run_that_many_ask_for_at_once_is_made_once():
    async def use():
        cache, made = RunCache(1000), []

        async def make():
            made.append(1)
            await asyncio.sleep(0.01)
            return Sized(1), {}

        found = await asyncio.gather(*(cache.run("m", "a", f"s{n}", make) for n in range(5)))
        assert len({cached.id for cached in found}) == 1 and made == [1] and found[0].sessions == {f"s{n}" for n in range(5)}
        cache.leave("s0")
        assert cache.runs
        for n in range(1, 5):
            cache.leave(f"s{n}")
        assert not cache.runs

    asyncio.run(use())


def test_what_fails_is_tried_again():
    async def use():
        cache, tries = RunCache(1000), []

        async def make():
            tries.append(1)
            if len(tries) == 1:
                raise ValueError("not now")
            return Sized(1), {}

        with pytest.raises(ValueError, match="not now"):
            await cache.run("m", "a", "s", make)
        assert (await cache.run("m", "a", "s", make)).id in cache.runs

    asyncio.run(use())


def test_who_stops_waiting_does_not_stop_the_work():
    async def use():
        cached, ended = CachedRun("r", "m", "a", Sized(1), {}), []

        async def make():
            await asyncio.sleep(0.05)
            ended.append(1)
            return 7

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cached.once("x", make), 0.01)
        assert await cached.once("x", make) == 7 and ended == [1]

    asyncio.run(use())


def test_answers_kept_ready_have_a_limit():
    cached = CachedRun("r", "m", "a", Sized(1), {})
    for n in range(6):
        cached.remember(n, bytes(RESPONSE_BYTES // 4))
        cached.known(0)
    assert cached.response_bytes <= RESPONSE_BYTES and cached.known(0) is not None and cached.known(1) is None and cached.known(5) is not None
    assert cached.remember("large", bytes(RESPONSE_BYTES + 1)) and cached.known("large") is None


def test_only_what_the_page_can_read_is_packed():
    import numpy as np
    from safetensors.numpy import save

    with pytest.raises(TypeError, match="a must be one of float32, float16, uint8, int32, got int64."):
        to_safetensors({"a": np.arange(3)}, {})
    with pytest.raises(ValueError, match="This is not a response of headwise in safetensors"):
        from_safetensors(b"nonsense")
    with pytest.raises(ValueError, match="This is not a response of headwise in safetensors"):
        from_safetensors(save({"a": np.zeros(3, np.float32)}))
    packed = to_safetensors({"a": np.uint8([1, 2, 3]), "b": np.zeros((0, 4), np.float32), "c": np.float32([[np.nan]])}, {"text": "ü"})
    found = from_safetensors(packed)
    assert found["text"] == "ü" and found["arrays"]["a"].tolist() == [1, 2, 3] and found["arrays"]["b"].shape == (0, 4) and np.isnan(found["arrays"]["c"]).all()

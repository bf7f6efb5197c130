"""Threads for work that takes time, so that the event loop only waits.

Forward passes queue for one thread; looking at maps has threads of its own.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")
P = ParamSpec("P")
LOOK_THREADS = 4


class ThreadPools:
    """The threads of a server. Constructed in its event loop."""

    def __init__(self) -> None:
        self.passes = CapacityLimiter(1)
        self.looks = CapacityLimiter(LOOK_THREADS)
        self.proofs = CapacityLimiter(1)
        self.experiments = CapacityLimiter(1)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run forward passes, one at a time: each uses every core."""
        return await to_thread.run_sync(lambda: function(*args, **kwargs), limiter=self.passes)

    async def look(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what takes milliseconds."""
        return await to_thread.run_sync(lambda: function(*args, **kwargs), limiter=self.looks)

    async def prove(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what takes seconds and must not keep forward passes waiting."""
        return await to_thread.run_sync(lambda: function(*args, **kwargs), limiter=self.proofs)

    async def experiment(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what takes minutes and must keep neither forward passes nor proofs waiting."""
        return await to_thread.run_sync(lambda: function(*args, **kwargs), limiter=self.experiments)

"""Where work that takes time is done: in threads, so that the event loop only waits.

Passes of models queue for one place; looking at maps has places of its own.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")
LOOKERS = 4


class Work:
    """The places of a server. Made in its event loop."""

    def __init__(self) -> None:
        self.passes = CapacityLimiter(1)
        self.looks = CapacityLimiter(LOOKERS)
        self.proofs = CapacityLimiter(1)
        self.experiments = CapacityLimiter(1)

    async def run(self, do: Callable[..., T], *given: Any) -> T:
        """Passes of a model, one at a time: each takes every processor."""
        return await to_thread.run_sync(do, *given, limiter=self.passes)

    async def look(self, do: Callable[..., T], *given: Any) -> T:
        """What takes milliseconds."""
        return await to_thread.run_sync(do, *given, limiter=self.looks)

    async def prove(self, do: Callable[..., T], *given: Any) -> T:
        """What takes long, and must not keep passes waiting."""
        return await to_thread.run_sync(do, *given, limiter=self.proofs)

    async def experiment(self, do: Callable[..., T], *given: Any) -> T:
        """What takes minutes, and must keep neither passes nor proofs waiting."""
        return await to_thread.run_sync(do, *given, limiter=self.experiments)

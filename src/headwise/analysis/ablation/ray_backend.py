"""The same units on the workers of a Ray cluster; what a lost worker had in hand is done again. Needs the extra `ray`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headwise.analysis.ablation.work_units import Plan, Result, Unit, Worker
from headwise.errors import ArgumentError, MissingPackage, ModelError

if TYPE_CHECKING:
    from headwise.models.model import Model

LOSSES = 8  # workers that may be lost while nothing gets done, before the work is given up


def spread(model: "Model", texts: Sequence[Any], plan: Plan, units: Iterable[Unit], address: str) -> Iterator[tuple[Unit, Result]]:
    """Do units on a cluster, one worker with one thread for each of its processors.

    Args:
        address: of a cluster, "auto" for the one of this machine or process, "local" to start one.

    Raises:
        ArgumentError: there is no cluster at this address.
        MissingPackage: ray is not installed.
        ModelError: workers are lost again and again.
    """
    ray = _joined(address)
    given = ray.put((model.hf, model.tokenizer, model.name)), ray.put((list(texts), plan))
    waiting = list(reversed(list(units)))
    count = min(max(int(ray.cluster_resources().get("CPU", 1)), 1), max(len(waiting), 1))
    hand = _hand(ray)
    busy = {}

    def start(worker: Any) -> None:
        if waiting:
            unit = waiting.pop()
            busy[worker.work.remote(unit)] = worker, unit

    for _ in range(count):
        start(hand.remote(*given))
    lost = 0
    while busy:
        (ready,), _ = ray.wait(list(busy), num_returns=1)
        worker, unit = busy.pop(ready)
        try:
            result = ray.get(ready)
        except ray.exceptions.RayActorError:
            lost += 1
            if lost > LOSSES:
                raise ModelError(f"workers must live long enough to do a unit, got {lost} lost in a row. See the cluster's log.") from None
            waiting.append(unit)
            start(hand.remote(*given))
            continue
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # what the worker itself says is wrong
        lost = 0
        yield unit, result
        start(worker)


def _joined(address: str) -> Any:
    """Ray, as part of the cluster."""
    try:
        import ray
    except ImportError:
        raise MissingPackage("ray must be installed to spread work, got none. Run `pip install 'headwise[ray]'`.") from None
    if not ray.is_initialized():
        try:
            ray.init(address=None if address == "local" else address, log_to_driver=False, include_dashboard=False if address == "local" else None)
        except (ConnectionError, ValueError, RuntimeError) as error:
            said = str(error).splitlines()[0]
            raise ArgumentError(f"ray must be the address of a cluster that answers, got {address!r}: {said}. Start one, or write local.") from None
    return ray


def _hand(ray: Any) -> Any:
    """A worker in a process of its own."""

    @ray.remote(num_cpus=1)
    class RayWorker:
        def __init__(self, model: Any, work: Any) -> None:
            import torch

            from headwise.models.model import Model

            torch.set_num_threads(1)
            self.worker = Worker(Model(*model), *work)

        def work(self, unit: Unit) -> Result:
            return self.worker.work(unit)

    return RayWorker

"""Which tensor of a checkpoint's files a parameter of the model is: by its name, and proved by its numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from safetensors import safe_open

from headwise.axes import Tensor
from headwise.errors import CheckpointError, ModelError
from headwise.interventions.safetensors_shard import Shard


def stored_names(hf: Any, parameters: Sequence[str], shards: Sequence[Shard]) -> dict[str, str]:
    """For each parameter, the name under which its very numbers are stored.

    Raises:
        ModelError: no stored tensor is this parameter: its family stores weights otherwise than it uses them.
    """
    prefix = getattr(hf, "base_model_prefix", "")
    homes = {stored.name: (shard, stored) for shard in shards for stored in shard.tensors}
    found: dict[str, str] = {}
    for parameter in parameters:
        mine = hf.get_parameter(parameter).detach()
        likely = [name for name in candidates(prefix, parameter) if name in homes]
        others = [name for name, (_, stored) in homes.items() if stored.shape == tuple(mine.shape) and name not in likely]
        match = next((name for name in (*likely, *others) if _is(mine, homes[name][0], name)), None)
        if match is None:
            raise ModelError(
                f"an edited parameter must be stored as it is used, got {parameter}, which no tensor of {shards[0].path.parent.name!r} equals. "
                "Was the model trained since it was opened? Then save_pretrained it first, and edit what that wrote."
            )
        found[parameter] = match
    return found


def check_memory(hf: Any, shards: Sequence[Shard]) -> None:
    """Whether the model in memory still has the numbers of the files: else what is saved would not be what was seen.

    Raises:
        CheckpointError: a parameter has others.
    """
    parameters: Mapping[str, Tensor] = dict(hf.named_parameters())
    prefix = getattr(hf, "base_model_prefix", "")
    by_stored = {name: parameter for parameter in parameters for name in candidates(prefix, parameter)}
    for shard in shards:
        with safe_open(shard.path, framework="pt") as file:
            for stored in shard.tensors:
                mine = parameters.get(by_stored.get(stored.name, ""))
                if mine is not None and tuple(mine.shape) == stored.shape and not _same(mine, file.get_tensor(stored.name)):
                    raise CheckpointError(
                        f"the files must hold the weights of the model that was edited, got other numbers for {stored.name} in {shard.path.name}. "
                        "The files or the model were changed since it was opened: open it again."
                    )


def candidates(prefix: str, parameter: str) -> Iterator[str]:
    """The names under which a parameter may be stored: with its model's `base_model_prefix`, and without."""
    yield parameter
    if prefix:
        yield parameter.removeprefix(f"{prefix}.")
        yield f"{prefix}.{parameter}"


def _is(mine: Tensor, shard: Shard, name: str) -> bool:
    with safe_open(shard.path, framework="pt") as file:
        return _same(mine, file.get_tensor(name))


def _same(mine: Tensor, stored: Tensor) -> bool:
    return mine.shape == stored.shape and torch.equal(mine.detach().cpu(), stored.to(mine.dtype))

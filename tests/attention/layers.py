"""Layers to be judged, each with every option that it is about, and how far a right float64 computation may be off."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.attention.layer import LayerConfig, LayerInputs, LayerParams, Trace, forward, trace
from headwise.attention.position import Alibi, PositionEncoding, RelativeBuckets, Rotary
from tests.attention import plain_layer
from tests.attention.problem import normal

M, H, G, D, E, C, B, T, S = 11, 6, 3, 4, 5, 13, 2, 3, 7
SLOPES_OF_6 = (0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125)


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer with its input.

    Attributes:
        past: input of earlier tokens, which `layer` sees as a cache.
        position: how `plain_layer` calls it.
    """

    x: Tensor
    maps: Mapping[str, Tensor]
    config: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    past: Tensor | None = None
    position: tuple[str, Mapping[str, Any]] | None = None

    def parts(self) -> tuple[Tensor, LayerParams, LayerConfig, LayerInputs]:
        """The arguments of `trace` and `forward`."""
        params, config = LayerParams(**self.maps), LayerConfig(**self.config, position=self._position())
        cache = None if self.past is None else forward(self.past, params, replace(config, window=None)).cache
        return self.x, params, config, LayerInputs(past=cache, **self.inputs)

    def trace(self) -> Trace:
        return trace(*self.parts())

    def forward(self) -> Tensor:
        return forward(*self.parts()).out

    def oracle(self) -> dict[str, np.ndarray]:
        arrays = {name: value.detach().numpy() if isinstance(value, Tensor) else value for name, value in self.inputs.items()}
        past = None if self.past is None else self.past.detach().numpy()
        return plain_layer.layer(self.x.detach().numpy(), self.arrays(), past=past, position=self._plain_position(), **arrays, **self.config)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: tensor.detach().numpy() for name, tensor in self.maps.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that has a gradient, by name."""
        extra = {"x": self.x, "context": self.inputs.get("context"), "bias": self.inputs.get("bias"), "past": self.past, "table": self._table()}
        return {**self.maps, **{name: tensor for name, tensor in extra.items() if tensor is not None}}

    def having(self, tensors: Mapping[str, Tensor]) -> "Layer":
        """The same layer with these tensors in place of its own."""
        inputs = {name: tensors.get(name, value) for name, value in self.inputs.items()}
        position = self.position
        if "table" in tensors and position is not None:
            position = (position[0], {**position[1], "table": tensors["table"]})
        maps = {name: tensors.get(name, value) for name, value in self.maps.items()}
        return replace(self, x=tensors.get("x", self.x), maps=maps, inputs=inputs, past=tensors.get("past", self.past), position=position)

    def allowed(self, name: str, path: Trace) -> Tensor:
        """32 times the most that a tensor moves when all numbers move by one unit in the last place, and 64 such units of its own size."""
        moved = [(getattr(shaken, name) - getattr(path, name)).detach().abs().amax() for shaken in self._shaken]
        return 32 * torch.stack(moved).amax() + 64 * 2**-52 * getattr(path, name).detach().abs().amax()

    @cached_property
    def _shaken(self) -> list[Trace]:
        return [self._with_noise(seed).trace() for seed in range(4)]

    def _with_noise(self, seed: int) -> "Layer":
        signs = {name: normal(*tensor.shape, seed=100 * seed + n).sign() for n, (name, tensor) in enumerate(self.tensors().items())}
        return self.having({name: tensor.detach() * (1 + signs[name] * 2**-52) for name, tensor in self.tensors().items()})

    def _table(self) -> Tensor | None:
        return None if self.position is None else self.position[1].get("table")

    def _position(self) -> PositionEncoding:
        kind, how = self.position or ("none", {})
        kinds = {"none": PositionEncoding, "rotary": Rotary, "alibi": Alibi, "buckets": RelativeBuckets}
        return kinds[kind](**how)

    def _plain_position(self) -> tuple[str, dict[str, Any]] | None:
        if self.position is None:
            return None
        kind, how = self.position
        how = {name: value.detach().numpy() if isinstance(value, Tensor) else value for name, value in how.items()}
        return kind, {"slopes": SLOPES_OF_6} if kind == "alibi" else how


def maps(biases: bool = True, sink: bool = False, context: int = M, seed: int = 0) -> dict[str, Tensor]:
    shapes = {"w_q": (M, H, D), "w_k": (context, G, D), "w_v": (context, G, E), "w_o": (H, E, M)}
    if biases:
        shapes |= {"b_q": (H, D), "b_k": (G, D), "b_v": (G, E), "b_o": (M,)}
    if sink:
        shapes |= {"sink": (H,)}
    return {name: 0.6 * normal(*shape, seed=seed + n) for n, (name, shape) in enumerate(shapes.items())}


def mask(queries: int = T, keys: int = T) -> Tensor:
    """Another one for each batch row and head; every row sees at least its first keys."""
    hidden = normal(B, H, queries, keys, seed=71) > 0.8
    hidden[..., :2] = False
    return ~hidden


def _all() -> dict[str, Layer]:
    x, long, context = normal(B, T, M, seed=11), normal(B, S, M, seed=12), normal(B, S, C, seed=13)
    table = normal(12, H, seed=14)
    crossed = {"context": context}
    return {
        "plain": Layer(x, maps(biases=False)),
        "biased": Layer(x, maps()),
        "causal": Layer(long, maps(), {"causal": True}),
        "window": Layer(long, maps(), {"window": 4, "causal": True}),
        "window, two sides": Layer(long, maps(), {"window": (2, 3)}),
        "mask of each head": Layer(long, maps(), {"causal": True}, {"mask": mask(S, S)}),
        "bias of each head": Layer(x, maps(), {}, {"bias": normal(B, H, T, T, seed=15)}),
        "cap, sink, scale": Layer(long, maps(sink=True), {"softcap": 1.5, "scale": 0.9, "causal": True}, {"bias": normal(1, H, 1, S, seed=16)}),
        "scale < 0": Layer(long, maps(sink=True), {"scale": -0.7, "causal": True}),
        "scale 0": Layer(long, maps(), {"scale": 0.0, "causal": True}),
        "cross": Layer(x, maps(context=C), {}, crossed),
        "cross, masked, with offsets": Layer(x, maps(context=C), {"causal": True}, {**crossed, "query_offset": [2, 5], "mask": mask(T, S)}),
        "rotary, halves": Layer(long, maps(), {"causal": True}, position=("rotary", {"base": 50.0})),
        "rotary, neighbours": Layer(long, maps(), {"causal": True}, position=("rotary", {"base": 50.0, "pairing": "neighbours"})),
        "rotary, in part": Layer(long, maps(), {"causal": True}, position=("rotary", {"width": 2})),
        "alibi": Layer(long, maps(), {"causal": True}, position=("alibi", {})),
        "alibi, both ways, biased": Layer(long, maps(), {}, {"bias": normal(B, 1, S, S, seed=17)}, position=("alibi", {})),
        "buckets": Layer(long, maps(), {"scale": 1.0}, position=("buckets", {"table": table, "max_distance": 9, "bidirectional": True})),
        "buckets, behind": Layer(long, maps(), {"causal": True}, position=("buckets", {"table": table, "max_distance": 11, "bidirectional": False})),
        "past": Layer(x, maps(), {"causal": True}, past=long),
        "past, rotary": Layer(x, maps(sink=True), {"causal": True, "window": 5}, past=long, position=("rotary", {"base": 50.0})),
        "past, alibi": Layer(x, maps(), {"causal": True}, past=long, position=("alibi", {})),
        "past, buckets": Layer(x, maps(), {}, past=long, position=("buckets", {"table": table, "max_distance": 9, "bidirectional": True})),
    }


LAYERS = _all()

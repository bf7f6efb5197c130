"""Attention inside tiny models of transformers: the model makes its own masks, keeps its own cache and calls the attention that it is set to.

A model of one layer, built from its config, is told what its projections say and what it hears of positions (nothing): so the
queries, keys and values that reach its attention are those of a problem, and what its heads say is what the output map reads.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.capabilities import ABILITIES, DTYPES
from headwise.conformance.conventions import Conventions
from headwise.conformance.oracles.attention_oracle import visibility
from headwise.conformance.problems.problem import Problem
from headwise.errors import ArgumentError, NotSupported

SMALL = {"vocab_size": 5, "num_hidden_layers": 1, "intermediate_size": 16, "max_position_embeddings": 1024}


@dataclass(frozen=True)
class Kind:
    """One family of models.

    Attributes:
        words: options that it knows beside causal, mask, scale and dropout.
        layer: where the attention is.
        config: further settings, by the problem.
        names: of the projections q, k, v inside, and of the output map of the layer.
        grouped: it knows fewer key heads than query heads.
        dtypes: in which all of its layer can be computed.
    """

    option_names: frozenset[str] = frozenset()
    layer: str = "layers.0.self_attn"
    config: Callable[[Problem], Mapping[str, Any]] = lambda problem: {}
    names: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "layers.0.self_attn.o_proj")
    grouped: bool = True
    dtypes: tuple[torch.dtype, ...] = DTYPES


def _windowed(problem: Problem) -> dict[str, Any]:
    return {"sliding_window": problem.window}


def _layered(problem: Problem) -> dict[str, Any]:
    kind = "full_attention" if problem.window is None else "sliding_attention"
    return {"layer_types": [kind], "sliding_window": 4096 if problem.window is None else problem.window}


def _capped(problem: Problem) -> dict[str, Any]:
    return {**_layered(problem), "attn_logit_softcapping": problem.softcap}


def _of_experts(problem: Problem) -> dict[str, Any]:
    return {**_layered(problem), "num_local_experts": 1, "num_experts_per_tok": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}


def _of_bert(problem: Problem) -> dict[str, Any]:
    return {"is_decoder": problem.causal, "attention_probs_dropout_prob": problem.dropout, "hidden_dropout_prob": 0.0}


KINDS: Mapping[str, Kind] = {
    "llama": Kind(),
    "mistral": Kind(frozenset({"window"}), config=_windowed),
    "gemma2": Kind(frozenset({"window", "softcap"}), config=_capped),
    "gpt_oss": Kind(frozenset({"window", "sink"}), config=_of_experts, dtypes=tuple(kind for kind in DTYPES if kind != torch.float64)),
    "bert": Kind(
        layer="encoder.layer.0.attention.self",
        config=_of_bert,
        names=("query", "key", "value", "encoder.layer.0.attention.output.dense"),
        grouped=False,
    ),
}


class Says(nn.Module):
    """A projection that says what it was told, whatever it reads."""

    what: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return self.what


class Hears(nn.Module):
    """An output map that keeps what it reads, and writes nothing."""

    heard: Tensor

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.wide = wide

    def forward(self, z: Tensor) -> Tensor:
        self.heard = z
        return z.new_zeros(*z.shape[:-1], self.wide)


class Still(nn.Module):
    """Angles of 0 at every position, in the shapes that the model's own have."""

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, *arguments: Any, **keywords: Any) -> tuple[Tensor, Tensor]:
        cos, sin = self.rotary(*arguments, **keywords)
        return torch.ones_like(cos), torch.zeros_like(sin)


def inside(implementation: str, models: Mapping[str, Conventions], lacks: frozenset[str] = frozenset(), model: str | None = None) -> tuple[CallSubject, ...]:
    """A subject for each tiny model, set to one attention implementation.

    Args:
        implementation: as transformers has it registered.
        models: by family, what the attention means in it.
        lacks: what it says that it cannot do.
        model: only this one.

    Raises:
        ArgumentError: there is no such tiny model with this implementation.
    """
    if model not in (None, *models):
        raise ArgumentError(f"model must be one of {', '.join(models)}, got {model!r}. Choose one of them, or leave it out for all.")
    chosen = models if model is None else {model: models[model]}
    return tuple(_subject(implementation, name, conventions, lacks) for name, conventions in chosen.items())


def _subject(implementation: str, name: str, conventions: Conventions, lacks: frozenset[str]) -> CallSubject:
    kind = KINDS[name]
    known = {"causal", "mask", "scale", "dropout", *kind.option_names, *ABILITIES} - {"lse", "empty", "offset_by_row", "value_width"} - lacks
    supports = frozenset(known if kind.grouped else known - {"groups"})
    return CallSubject(f"{implementation} in {name}", partial(compute, implementation, name), supports, conventions, kind.dtypes)


def compute(implementation: str, name: str, problem: Problem, mode: CallMode) -> Answer:
    """One pass of the model; keys before the first query come from its cache."""
    kind, (batch, heads, queries, _), width = KINDS[name], problem.shape, problem.query.shape[3]
    past = _past(problem, name)
    told = _even(problem)
    dtype, settings = problem.query.dtype, _hashable({"is_causal": problem.causal, **kind.config(problem)})
    model, attention, output = _made(implementation, name, heads, told.key.shape[1], told.query.shape[3], dtype, settings)
    model.train(mode.training)
    attention.scaling = width**-0.5 if problem.scale is None else problem.scale  # pyright: ignore[reportArgumentType]
    attention.attention_dropout = problem.dropout  # pyright: ignore[reportArgumentType]
    if "sink" in kind.option_names:
        attention._parameters.pop("sinks", None)  # the problem's own tensor takes the parameter's place, so that it has a gradient
        attention.sinks = problem.query.new_full((heads,), -torch.inf) if problem.sink is None else problem.sink
    for projection, part in zip(kind.names, (told.query, told.key[:, :, past:], told.value[:, :, past:]), strict=False):
        getattr(attention, projection).what = part.transpose(1, 2).flatten(2)
    words: dict[str, Any] = {"inputs_embeds": torch.zeros(batch, queries, model.config.hidden_size, dtype=dtype), "output_attentions": mode.weights}  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
    words["attention_mask"] = _mask(implementation, problem, past)
    words["use_cache"] = past > 0
    if past:
        words["cache"] = _cache(model.config, told.key[:, :, :past], told.value[:, :, :past])
    found = model(**words)
    said = output.heard.unflatten(-1, (heads, -1)).transpose(1, 2)[..., :width]
    return Answer(said, _of_all_keys(found.attentions[0], past + queries) if mode.weights else None)


def _of_all_keys(weights: Tensor, keys: int) -> Tensor:
    """Weights of what a cache that keeps a window still holds, with zeros for the keys that have left it."""
    return pad(weights, (keys - weights.shape[-1], 0))


def _past(problem: Problem, name: str) -> int:
    """How many keys the cache holds before the queries come.

    Raises:
        Refused: no such pass can be made.
    """
    past = problem.shape[3] - problem.shape[2]
    if past < 0 or (past and name == "bert" and not problem.causal):
        raise NotSupported("self-attention has a query for every key, but for those of a cache.")
    if isinstance(problem.window, tuple) or (problem.window is not None and not problem.causal):
        raise NotSupported("windows are of causal models, and lie behind the query.")
    if past and problem.window is not None and (_square(problem) or problem.window < 2):
        raise NotSupported("a cache that keeps a window has no room for a mask of the caller's.")
    return past


def _even(problem: Problem) -> Problem:
    """Features turn in pairs: one of 0 more where they are odd."""
    if problem.query.shape[3] % 2 == 0:
        return problem
    return problem.replace(**{name: pad(getattr(problem, name), (0, 1)) for name in ("query", "key", "value")})


def _hashable(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, json.dumps(value)) for name, value in settings.items())


@lru_cache(maxsize=512)
def _made(
    implementation: str, name: str, heads: int, groups: int, width: int, dtype: torch.dtype, settings: tuple[tuple[str, str], ...]
) -> tuple[nn.Module, nn.Module, Hears]:
    """The model, its attention, and what hears its heads."""
    from transformers import AutoConfig, AutoModel

    kind, changes = KINDS[name], {word: json.loads(value) for word, value in settings}
    wide = heads * (width if name == "bert" else 16)  # experts multiply by blocks of 16 bytes
    sizes = {"hidden_size": wide, "num_attention_heads": heads, "num_key_value_heads": groups, "head_dim": width}
    config = AutoConfig.for_model(name, **{**SMALL, **sizes, **changes})
    with torch.random.fork_rng(devices=[]):  # its first weights are drawn, and not used
        model: nn.Module = AutoModel.from_config(config, attn_implementation=implementation, dtype=dtype)
    attention = model.get_submodule(kind.layer)
    for projection in kind.names[:3]:
        setattr(attention, projection, Says())
    holder, _, last = kind.names[3].rpartition(".")
    output = Hears(wide)
    setattr(model.get_submodule(holder), last, output)
    if hasattr(model, "rotary_emb"):
        model.rotary_emb = Still(model.rotary_emb)  # pyright: ignore[reportArgumentType]
    return model, attention, output


def _mask(implementation: str, problem: Problem, past: int) -> Tensor | None:
    """Which tokens of each text are padding, where a mask says no more; else all that hides, as the implementation takes it."""
    if not _square(problem):
        return None if problem.mask is None else problem.mask[:, 0, 0].expand(len(problem.query), problem.key.shape[2]).long()
    visible = torch.from_numpy(visibility(problem, Conventions()))
    if implementation != "eager":
        return visible
    return problem.query.new_zeros(visible.shape).masked_fill(~visible, torch.finfo(problem.query.dtype).min)


def _square(problem: Problem) -> bool:
    """Whether the mask says more than which tokens are padding."""
    mask = problem.mask
    return mask is not None and not (mask.dim() == 4 and mask.shape[1] == mask.shape[2] == 1)


def _cache(config: Any, key: Tensor, value: Tensor) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache(config=config)
    cache.update(key, value, 0)
    return cache

"""A function called like `hw.attend`: which of its keywords mean what."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from headwise.errors import ArgumentError, ArgumentTypeError

# What the field calls the options of `hw.attend`; the first that a signature has is taken.
WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "causal": ("causal", "is_causal"),
        "query_offset": ("query_offset",),
        "window": ("window", "window_size", "sliding_window"),
        "mask": ("mask", "attn_mask", "attention_mask"),
        "bias": ("bias", "attn_bias"),
        "scale": ("scale", "scaling", "softmax_scale", "sm_scale"),
        "softcap": ("softcap", "soft_cap", "logits_soft_cap"),
        "sink": ("sink", "sinks", "s_aux"),
        "dropout": ("dropout", "dropout_p", "dropout_rate"),
    }
)
WEIGHTS = ("return_weights", "need_weights", "output_attentions", "return_attn_probs", "return_attention_scores")
LENGTHS = ("cu_seqlens_q", "cu_seqlens_k")
SWITCHES = ("enable_gqa", "training", *LENGTHS, "max_seqlen_q", "max_seqlen_k")


@dataclass(frozen=True, eq=False)
class Binding:
    """How one function is called.

    Attributes:
        function: takes query, key and value by position, the rest by keyword.
        name: its import path where it has one.
        words: its keyword for each option that it knows.
        asks_weights: the keyword that asks for weights too; "" where there is none.
        switches: further keywords that are understood.
        required: keywords that it cannot be called without.
    """

    function: Callable[..., Any]
    name: str
    words: Mapping[str, str]
    asks_weights: str = ""
    switches: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()


def bound(function: Callable[..., Any], name: str) -> Binding:
    """Read the signature of a function.

    Raises:
        ArgumentTypeError: it is no function, or its signature cannot be read.
        ArgumentError: it does not take three tensors by position, or demands arguments that are not known.

    Example:
        >>> binding = bound(lambda q, k, v, is_causal=False, scaling=None: q, "mine")
        >>> dict(binding.words)
        {'causal': 'is_causal', 'scale': 'scaling'}
    """
    if not callable(function):
        raise ArgumentTypeError(f"subject must be a function, an nn.Module or the name of a peer, got {type(function).__name__}. Wrap it in a function.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"subject must have a signature that can be read, got {name}. Wrap it: def f(query, key, value): return ...") from None
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:3]
    if len(places) < 3 and not any(p.kind == p.VAR_POSITIONAL for p in parameters):
        said = ", ".join(p.name for p in parameters)
        raise ArgumentError(f"subject must take query, key and value by position, got {name}({said}). Wrap it in a function that does.")
    rest = {p.name: p for p in parameters if p not in places and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    words = {option: found[0] for option, known in WORDS.items() if (found := [word for word in known if word in rest])}
    required = frozenset(name for name, p in rest.items() if p.default is p.empty)
    asks = next((word for word in WEIGHTS if word in rest), "")
    switches = frozenset(rest).intersection(SWITCHES)
    unknown = sorted(required - set(words.values()) - {asks} - switches)
    if unknown:
        said = ", ".join(unknown)
        raise ArgumentError(f"subject must demand no argument that hw.attend lacks, got {name} which demands {said}. Wrap it in a function that gives them.")
    return Binding(function, name, MappingProxyType(words), asks, switches, required)

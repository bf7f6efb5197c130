"""The signature of a function called like `hw.attend`: which keyword means which option."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from headwise.errors import ArgumentError, ArgumentTypeError

# Names in use for the options of `hw.attend`; the first one that a signature has is taken.
OPTION_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
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
WEIGHT_FLAGS = ("return_weights", "need_weights", "output_attentions", "return_attn_probs", "return_attention_scores")
PACKED_LENGTHS = ("cu_seqlens_q", "cu_seqlens_k")
EXTRA_KEYWORDS = ("enable_gqa", "training", *PACKED_LENGTHS, "max_seqlen_q", "max_seqlen_k")


@dataclass(frozen=True, eq=False)
class Binding:
    """How one function is called.

    Attributes:
        function: takes query, key and value by position, the rest by keyword.
        name: its import path, where it has one.
        option_names: its keyword for each option that it supports.
        weights_flag: the keyword that requests the attention weights; "" where there is none.
        extra_keywords: further keywords that are understood.
        required: keywords without a default.
    """

    function: Callable[..., Any]
    name: str
    option_names: Mapping[str, str]
    weights_flag: str = ""
    extra_keywords: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()


def bind(function: Callable[..., Any], name: str) -> Binding:
    """Read the signature of a function.

    Raises:
        ArgumentTypeError: it is not callable, or its signature cannot be read.
        ArgumentError: it does not take three tensors by position, or requires arguments with no known meaning.

    Example:
        >>> binding = bind(lambda q, k, v, is_causal=False, scaling=None: q, "mine")
        >>> dict(binding.option_names)
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
        names = ", ".join(p.name for p in parameters)
        raise ArgumentError(f"subject must take query, key and value by position, got {name}({names}). Wrap it in a function that does.")
    rest = {p.name: p for p in parameters if p not in places and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    names = {option: found[0] for option, known in OPTION_NAMES.items() if (found := [name for name in known if name in rest])}
    required = frozenset(name for name, p in rest.items() if p.default is p.empty)
    weights_flag = next((name for name in WEIGHT_FLAGS if name in rest), "")
    extra = frozenset(rest).intersection(EXTRA_KEYWORDS)
    unknown = sorted(required - set(names.values()) - {weights_flag} - extra)
    if unknown:
        raise ArgumentError(
            f"{name} requires the arguments {', '.join(unknown)}, whose meaning is unknown. Wrap it in a function of query, key and value that passes them."
        )
    return Binding(function, name, MappingProxyType(names), weights_flag, extra, required)

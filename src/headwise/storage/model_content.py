"""The content of models and tokenizers: weights, configuration, hooks and classes, without provenance such as paths."""

import sys
from collections.abc import Mapping
from typing import Any

from headwise.storage.content import Content

# Provenance, and warnings already given: no result depends on these.
PROVENANCE = frozenset(
    (
        "_name_or_path",
        "name_or_path",
        "_commit_hash",
        "transformers_version",
        "_original_object_hash",
        "_auto_class",
        "_auto_map",
        "deprecation_warnings",
        "verbose",
        "init_inputs",
        "vocab_file",
        "merges_file",
        "tokenizer_file",
    )
)
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
OWN = frozenset(
    (
        *HOOKS,
        "_parameters",
        "_buffers",
        "_modules",
        "_non_persistent_buffers_set",
        "_is_full_backward_hook",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_is_hf_initialized",
        "_compiled_call_impl",
        "_forward_hooks_with_kwargs",
        "_forward_pre_hooks_with_kwargs",
        "_forward_hooks_always_called",
    )
)


def model_content(value: Any) -> Content | None:
    """The content of an `nn.Module`, of a transformers configuration or tokenizer, or of an object with a method `fingerprint_parts`; else None."""
    if hasattr(type(value), "fingerprint_parts"):
        return Content("object", parts=[("class", type(value).__qualname__), *value.fingerprint_parts()], identity=True)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        return Content("module", parts=_module_parts(value), identity=True)
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(value).__mro__ if kind.__module__.startswith("transformers.")}
    if any(name.endswith(("PreTrainedConfig", "PretrainedConfig", "GenerationConfig")) for name in names):
        return Content("configuration", parts=[("class", type(value)), ("settings", without_provenance(vars(value)))], identity=True)
    if any(name.endswith("PreTrainedTokenizerBase") for name in names):
        return Content("tokenizer", parts=_tokenizer_parts(value), identity=True)
    return None


def without_provenance(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that only record provenance."""
    return {name: value for name, value in settings.items() if name not in PROVENANCE}


def _module_parts(module: Any) -> list[tuple[str, Any]]:
    """The class, hooks, attributes and tensors of a module; our counters of calls within a pass are no property of the model."""
    known = vars(module)
    hooks = [(name, _hooks(known, name)) for name in HOOKS]
    others = {name: value for name, value in known.items() if name not in OWN and not name.startswith("_headwise_turn")}
    inner = [(f"{kind}.{name}", value) for kind in ("_parameters", "_buffers", "_modules") for name, value in known.get(kind, {}).items()]
    return [("class", type(module)), *hooks, ("attributes", others), *inner]


def _hooks(known: Mapping[str, Any], kind: str) -> list[tuple[Any, ...]]:
    """Hooks in execution order, each with its settings. The ids under which torch stores them depend on all hooks registered before, and are ignored."""
    settings = [known.get(f"{kind}_{name}", {}) for name in ("with_kwargs", "always_called")]
    return [(hook, *(number in setting for setting in settings)) for number, hook in known.get(kind, {}).items()]


def _tokenizer_parts(tokenizer: Any) -> list[tuple[str, Any]]:
    """The content of a tokenizer; of a fast one its JSON without the padding and truncation of the last call, which every call sets anew."""
    settings = without_provenance(vars(tokenizer))
    settings["init_kwargs"] = without_provenance(settings.get("init_kwargs") or {})
    backend = settings.pop("_tokenizer", None)
    rules = None if backend is None else backend.to_str()
    return [("class", type(tokenizer)), ("settings", settings), ("rules", rules and rules[max(rules.find('"added_tokens"'), 0) :])]

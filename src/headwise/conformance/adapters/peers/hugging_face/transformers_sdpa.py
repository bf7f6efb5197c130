"""transformers' sdpa attention in tiny models: torch's fused function behind the attention interface."""

from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.tiny_transformers import inside
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.conventions import Conventions

MEANS = Conventions(hidden_nonfinite="leaks", weights="never")


def build(model: str | None = None) -> tuple[CallSubject, ...]:
    """One for each model that allows it.

    Args:
        model: llama, mistral or bert; all of them when absent.
    """
    return inside("sdpa", dict.fromkeys(("llama", "mistral", "bert"), MEANS), lacks=frozenset({"weights"}), model=model)


ENTRY = Peer(statement="sdpa attention of transformers, in tiny models.", build=build, documented=("mask_polarity", "corner"))

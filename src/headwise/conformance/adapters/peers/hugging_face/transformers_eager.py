"""transformers' eager attention in tiny models: hidden scores are the smallest number of the dtype."""

from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.tiny_transformers import inside
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.conventions import Conventions

MEANS = Conventions(dead_row="mean", hidden_nonfinite="leaks", weights_after_dropout=True)


def build(model: str | None = None) -> tuple[CallSubject, ...]:
    """One for each model.

    Args:
        model: llama, mistral, gemma2, gpt_oss or bert; all of them when absent.
    """
    return inside("eager", dict.fromkeys(("llama", "mistral", "gemma2", "gpt_oss", "bert"), MEANS), model=model)


ENTRY = Peer(statement="eager attention of transformers, in tiny models.", build=build, documented=("mask_polarity", "corner"))

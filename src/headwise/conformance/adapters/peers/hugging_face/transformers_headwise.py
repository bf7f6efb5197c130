"""Our own attention in tiny models of transformers, by the public interface through which a run looks at a model."""

from headwise.catalog import late
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.tiny_transformers import inside
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.conventions import Conventions

MEANS = Conventions(weights="never")


def build(model: str | None = None) -> tuple[CallSubject, ...]:
    """One for each model.

    Args:
        model: llama, mistral, gemma2, gpt_oss or bert; all of them when absent.
    """
    name = late("headwise.models.capture.hf_attention:IMPLEMENTATION")  # brings transformers, which nobody else waits for
    late("headwise.models.capture.hf_attention:register")()
    return inside(name, dict.fromkeys(("llama", "mistral", "gemma2", "gpt_oss", "bert"), MEANS), lacks=frozenset({"weights", "dropout"}), model=model)


ENTRY = Peer(statement="headwise's attention in tiny models of transformers.", build=build, documented=("mask_polarity", "corner"))

"""Our own attention in tiny models of transformers, by the public interface through which a run looks at a model."""

from headwise.proof.conventions import Conventions
from headwise.subjects.call import CallSubject
from headwise.subjects.peer import Peer
from headwise.subjects.tiny import inside

MEANS = Conventions(weights="never")


def build(model: str | None = None) -> tuple[CallSubject, ...]:
    """One for each model.

    Args:
        model: llama, mistral, gemma2, gpt_oss or bert; all of them when absent.
    """
    from headwise.models.tap import NAME, register  # brings transformers, which nobody else waits for

    register()
    return inside(NAME, dict.fromkeys(("llama", "mistral", "gemma2", "gpt_oss", "bert"), MEANS), lacks=frozenset({"weights", "dropout"}), model=model)


ENTRY = Peer(statement="headwise's attention in tiny models of transformers.", build=build, says=("mask_polarity", "corner"))

"""transformers' sdpa attention: torch's fused function behind the attention interface."""

from headwise.proof.conventions import Conventions
from headwise.subjects.call import CallSubject
from headwise.subjects.hf import interface
from headwise.subjects.peer import Peer


def build() -> tuple[CallSubject, ...]:
    return (interface("sdpa", Conventions(hidden_nonfinite="leaks", weights="never"), lacks=frozenset({"weights"})),)


ENTRY = Peer(statement="sdpa_attention_forward of transformers, called as its models call it.", build=build, says=("mask_polarity",))

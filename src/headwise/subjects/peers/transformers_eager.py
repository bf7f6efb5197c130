"""transformers' eager attention: hidden scores are the smallest number of the dtype."""

from headwise.proof.conventions import Conventions
from headwise.subjects.call import CallSubject
from headwise.subjects.hf import interface
from headwise.subjects.peer import Peer


def build() -> tuple[CallSubject, ...]:
    conventions = Conventions(dead_row="mean", hidden_nonfinite="leaks", weights_after_dropout=True)
    return (interface("eager", conventions, lacks=frozenset({"value_width"})),)


ENTRY = Peer(statement="eager_attention_forward of transformers, called as its models call it.", build=build, says=("mask_polarity",))

"""Signatures: which keywords mean what, and what is said of a function that cannot be called like `hw.attend`."""

import pytest
import torch

from headwise.conformance.adapters.signature import bind
from headwise.errors import ArgumentError, ArgumentTypeError


def test_the_words_of_other_libraries_are_known():
    def theirs(q, k, v, attn_mask=None, is_causal=False, softmax_scale=None, window_size=None, s_aux=None, *, need_weights, dropout_p=0.0):
        return q

    binding = bind(theirs, "theirs")
    assert dict(binding.option_names) == {
        "causal": "is_causal",
        "window": "window_size",
        "mask": "attn_mask",
        "scale": "softmax_scale",
        "sink": "s_aux",
        "dropout": "dropout_p",
    }
    assert binding.weights_flag == "need_weights"
    assert binding.required == frozenset({"need_weights"})


@pytest.mark.parametrize(
    ("subject", "error", "said"),
    [
        (torch.ones(2), ArgumentTypeError, "subject must be a function, an nn.Module or the name of a peer, got Tensor. Wrap it in a function."),
        (max, ArgumentTypeError, r"subject must have a signature that can be read, got it. Wrap it: def f\(query, key, value\): return ..."),
        (lambda q, k: q, ArgumentError, r"subject must take query, key and value by position, got it\(q, k\). Wrap it in a function that does."),
        (
            lambda q, k, v, heads: q,
            ArgumentError,
            "it requires the arguments heads, whose meaning is unknown. Wrap it in a function of query, key and value that passes them.",
        ),
    ],
)
def test_what_cannot_be_called_is_refused(plain, subject, error, said):
    with pytest.raises(error, match=said):
        bind(subject, "it")

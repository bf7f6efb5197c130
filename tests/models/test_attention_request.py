"""What each keyword of the attention interface means: honoured to the number, or refused by name."""

import pytest
import torch
from torch import nn
from transformers.masking_utils import causal_mask_function

from headwise.attention.attend import compute
from headwise.attention.mask import visible_keys
from headwise.errors import ModelError
from headwise.models.capture.attention_request import HANDLED_KWARGS, MaskSplitter, parse_request, split_mask_and_bias
from headwise.models.masks.mask_description import MaskDescription, MaskHandle

B, H, G, T, S, D = 2, 6, 3, 5, 7, 4
LOWEST = torch.finfo(torch.float32).min


class Attention(nn.Module):
    is_causal = True


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def request(mask=None, module=None, query=None, key=None, value=None, unmasked_is_causal=False, scaling=0.3, is_causal=None, known=(), dropout=0.0, **keywords):
    query = draw(B, H, T, D, seed=1) if query is None else query
    key = draw(B, G, S, D, seed=2) if key is None else key
    value = draw(B, G, S, D + 1, seed=3) if value is None else value
    return parse_request(
        module or Attention().eval(),
        query,
        key,
        value,
        mask,
        scaling=scaling,
        dropout=dropout,
        is_causal=is_causal,
        unmasked_is_causal=unmasked_is_causal,
        model_kwargs=frozenset(known),
        keywords=keywords,
        split_mask=MaskSplitter(),
    )


def weights(found):
    """Through the reference, by handing it the identity as values."""
    value = torch.eye(S).expand(B, G, S, S)
    return compute(found.query, found.key, value, found.call, (), "reference").output


def eager(mask=None, bias=None, scaling=0.3, softcap=None, sink=None):
    scores = draw(B, H, T, D, seed=1) @ draw(B, G, S, D, seed=2).repeat_interleave(H // G, 1).transpose(-1, -2) * scaling
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    for added in (mask, bias):
        scores = scores if added is None else scores + added
    if sink is not None:
        return torch.cat([scores, sink.reshape((1, H, 1, 1) if sink.dim() == 1 else sink.shape).expand(B, H, T, 1)], -1).softmax(-1)[..., :-1]
    return scores.softmax(-1)


ADDED = torch.where(draw(B, 1, T, S, seed=9) > 0.8, LOWEST, 0.0)
SINK = draw(H, seed=5)
KEPT = torch.tensor([[[0, 3, 6], [1, 2, 3], [6, 5, 4], [0, 1, 2], [2, 4, 6]]] * B)
ROWS = draw(B, H, T, 1, seed=6)
CASES = {
    "nothing": ({}, {}),
    "sinks of rows": ({"sinks": ROWS}, {"sink": ROWS}),
    "sinks of rows, a mask and a bias": (
        {"sinks": ROWS, "mask": ADDED, "position_bias": draw(B, H, T, S)},
        {"sink": ROWS, "mask": ADDED, "bias": draw(B, H, T, S)},
    ),
    "a float mask": ({"mask": ADDED}, {"mask": ADDED}),
    "a float mask of fewer axes": ({"mask": ADDED[0, 0]}, {"mask": ADDED[0, 0]}),
    "a mask of one column": ({"mask": torch.full((B, 1, 1, 1), 0.0)}, {}),
    "a mask of one row": ({"mask": ADDED[:, :, :1]}, {"mask": ADDED[:, :, :1]}),
    "a mask with more keys than there are": ({"mask": torch.cat([ADDED, ADDED], -1)}, {"mask": ADDED}),
    "a bool mask": ({"mask": ADDED == 0}, {"mask": ADDED}),
    "a mask with a bias in it": ({"mask": ADDED + draw(B, H, T, S)}, {"mask": ADDED + draw(B, H, T, S)}),
    "a described mask": (
        {"mask": MaskHandle(MaskDescription(batch_size=B, q_length=T, kv_length=S, q_offset=2, mask_function=causal_mask_function))},
        {"mask": torch.ones(T, S).tril(2).log()},
    ),
    "position_bias": ({"position_bias": draw(1, H, T, S)}, {"bias": draw(1, H, T, S)}),
    "position_bias and a mask": ({"mask": ADDED, "position_bias": draw(1, H, T, S)}, {"mask": ADDED, "bias": draw(1, H, T, S)}),
    "position_bias with a mask in it": ({"mask": ADDED, "position_bias": ADDED.flip(0)}, {"mask": ADDED, "bias": ADDED.flip(0) / 2}),
    "softcap": ({"softcap": 0.5}, {"softcap": 0.5}),
    "s_aux": ({"s_aux": SINK}, {"sink": SINK}),
    "sinks": ({"sinks": SINK.reshape(1, H, 1, 1)}, {"sink": SINK}),
    "indices": ({"indices": KEPT}, {"mask": torch.zeros(B, 1, T, S).scatter(-1, KEPT[:, None], 1.0).log()}),
    "indices and a mask": ({"indices": KEPT, "mask": ADDED}, {"mask": ADDED + torch.zeros(B, 1, T, S).scatter(-1, KEPT[:, None], 1.0).log()}),
    "a tensor as scaling": ({"scaling": torch.tensor([0.7])}, {"scaling": 0.7}),
    "no scaling": ({"scaling": None}, {"scaling": D**-0.5}),
    "a negative scaling": ({"scaling": -0.4}, {"scaling": -0.4}),
    "window and padding of flash attention, which the mask says too": ({"sliding_window": 2, "cu_seq_lens_q": torch.tensor([0, 5])}, {}),
    "what the caller gave to the model": ({"mood": torch.ones(1), "known": ["mood"]}, {}),
    "keywords that say no": ({"mood": False, "temper": None}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_it_means_what_eager_attention_computes(case):
    given, means = CASES[case]
    found = request(**given)
    right = eager(**means)
    alive = right.isfinite().all(-1)
    torch.testing.assert_close(weights(found)[alive], right[alive], rtol=0, atol=2e-6)


def test_no_mask_means_causal_only_where_the_loaded_implementation_says_so():
    lower = torch.ones(T, S).tril().log()
    assert torch.allclose(weights(request(unmasked_is_causal=True)), eager(mask=lower), atol=1e-6)
    assert torch.allclose(weights(request(unmasked_is_causal=True, is_causal=False)), eager(), atol=1e-6)
    assert torch.allclose(weights(request(unmasked_is_causal=False, is_causal=True)), eager(), atol=1e-6)
    one = request(unmasked_is_causal=True, query=draw(B, H, 1, D))
    assert not one.call.causal  # a single query sees all that there is


def test_a_described_mask_with_more_keys_than_there_are():
    padding = torch.ones(B, S + 3, dtype=torch.bool)
    padding[1, :2] = False
    rule = MaskDescription(batch_size=B, q_length=T, kv_length=S + 3, q_offset=2, mask_function=causal_mask_function, attention_mask=padding)
    found = request(mask=MaskHandle(rule))
    assert found.padding.shape == (B, S)
    assert torch.allclose(weights(found), eager(mask=(padding[:, None, None, :S] & torch.ones(T, S).tril(2).bool()).float().log()), atol=1e-6)


def test_learned_queries_without_a_batch():
    found = request(query=draw(1, H, T, D))
    assert found.query.shape[0] == B


def test_a_mask_that_layers_share_is_taken_apart_once():
    once = MaskSplitter()
    mask = ADDED.clone()
    first = once(mask, mask)
    assert once(mask, mask) is first
    mask[0, 0, 0, 0] = 3
    second = once(mask, mask)
    assert second is not first
    assert second[1] is not None


def test_a_mask_taken_apart():
    hidden, added = split_mask_and_bias(torch.tensor([[[[0.0, LOWEST, -torch.inf, 2.0]]]]))
    assert hidden.tile(slice(0, 1), slice(0, 4)).tolist() == [[[[True, False, False, True]]]]
    assert added.tolist() == [[[[0, 0, 0, 2]]]]
    assert split_mask_and_bias(torch.zeros(1, 1, 2, 2)) == (None, None)


def test_a_tensor_mask_of_intervals_is_known_by_them():
    found = request(mask=torch.ones(B, 1, T, S, dtype=torch.bool).tril(1))
    assert visible_keys(found.call, T, S).mask is None
    assert visible_keys(request(mask=ADDED == 0).call, T, S).mask is not None


REFUSALS = {
    "block_indices": ({"block_indices": torch.zeros(B, T, 2)}, "attention keywords must be ones that headwise honours, got 'block_indices' in Attention"),
    "an unknown keyword": ({"alibi": 0.5}, f"got 'alibi' in Attention.* it honours {', '.join(sorted(HANDLED_KWARGS))}"),
    "dropout": ({"module": Attention().train(), "dropout": 0.1}, "dropout must be off while heads are read, got 0.1 in Attention. Call eval"),
    "sinks of keys": ({"sinks": draw(B, H, T, 2)}, r"sinks of Attention must be a logit for each head, or each row .*, got shape \[2, 6, 5, 2\]"),
    "three axes": ({"query": draw(H, T, D)}, r"query, key and value of Attention must be \[batch, heads, length, width\], got \[\[6, 5, 4\]"),
    "heads that do not divide": ({"query": draw(B, 5, T, D)}, r"heads and widths of Attention must fit together, got query, key and value of \[\[2, 5, 5, 4\]"),
    "values of other heads": ({"value": draw(B, H, S, D)}, "heads and widths of Attention must fit together"),
    "scaling a head": ({"scaling": torch.ones(H)}, r"scaling of Attention must be one number, got shape \[6\]"),
    "an int mask": ({"mask": torch.ones(B, 1, T, S, dtype=torch.int64)}, "attention_mask of Attention must be a bool or float tensor, got torch.int64"),
    "a mask that is no tensor": ({"mask": "causal"}, "attention_mask of Attention must be a bool or float tensor, got str"),
    "a mask that does not fit": (
        {"mask": torch.zeros(B, 1, T + 1, S)},
        r"attention_mask of Attention must broadcast to \[batch, heads, queries, keys\] = \[2, 6, 5, 7\], got \[2, 1, 6, 7\]",
    ),
    "a bias that does not fit": ({"position_bias": torch.zeros(1, 4, T, S)}, r"position_bias of Attention must broadcast to .* got \[1, 4, 5, 7\]"),
    "a described mask that does not fit": (
        {"mask": MaskHandle(MaskDescription(batch_size=B, q_length=T + 1, kv_length=S, mask_function=causal_mask_function))},
        r"the mask of Attention must fit batch, queries and keys \[2, 5, 7\], got \[2, 6, 7\]",
    ),
}


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("case", REFUSALS)
def test_refused_by_name(case):
    given, message = REFUSALS[case]
    with pytest.raises(ModelError, match=message):
        request(**given)


def test_a_sink_has_a_gradient_where_gradients_are_wanted():
    sink = draw(H, seed=4).requires_grad_()
    (slope,) = torch.autograd.grad(weights(request(s_aux=sink)).sum(), sink)
    (right,) = torch.autograd.grad(eager(sink=sink).sum(), sink)
    torch.testing.assert_close(slope, right)
    with torch.no_grad():
        assert not request(s_aux=sink).call.sink.requires_grad

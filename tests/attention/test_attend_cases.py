"""What attentions in famous code got wrong, each with the input that shows it, the right value, and the thread where it was told.

A case is a function of the attention that it judges. Each is run on every kernel; and on a plain attention with that very
fault (`mutants.py`), where it must fail: a case that no fault can fail would prove nothing.
"""

from functools import partial
from math import exp, log, tanh

import pytest
import torch

import headwise as hw
from headwise.attention.attend import attend as our_attend
from headwise.attention.module import MultiHeadAttention
from headwise.errors import ArgumentTypeError, ShapeError
from tests.attention import mutants
from tests.attention.backends import every_backend
from tests.attention.problem import normal

CASES = []


def case(*threads: str, wrong: tuple[str, ...]):
    """A case told of in these threads, which an attention with one of these faults must fail."""

    def keep(check):
        check.wrong = wrong
        CASES.append(check)
        return check

    return keep


def weights(attend, query, key, **options):
    """Each row's weights: the output where values are the rows of an identity."""
    value = torch.eye(key.shape[2], dtype=key.dtype).expand(*key.shape[:3], -1)
    return attend(query, key, value, **options).output


def seen_keys(attend, queries, keys, **options):
    """For each query, the keys on which it has weight."""
    found = weights(attend, normal(1, 1, queries, 4, seed=1), normal(1, 1, keys, 4, seed=2), **options)[0, 0]
    return [row.nonzero()[:, 0].tolist() for row in found]


def column(*numbers, dtype=torch.float64):
    """Queries, keys or values of one head and width 1."""
    return torch.tensor(numbers, dtype=dtype)[None, None, :, None]


def tensors(batch, heads, queries, keys, width, wide=None, groups=None, dtype=torch.float64):
    groups = heads if groups is None else groups
    shapes = (batch, heads, queries, width), (batch, groups, keys, width), (batch, groups, keys, width if wide is None else wide)
    return tuple(normal(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))


def lengths(*kept, keys):
    """[B, 1, 1, S], True for the first so many keys of each batch row."""
    return (torch.arange(keys) < torch.tensor(kept)[:, None])[:, None, None]


def close(found, right, within=1e-6):
    right = torch.as_tensor(right, dtype=torch.float64)
    assert found.shape == right.shape
    assert (found.double() - right).abs().max() <= within, f"{found.tolist()} instead of {right.tolist()}"


def slopes(attend, query, key, value, upstream=1.0, **options):
    """Gradients of Σ output · upstream."""
    leaves = [x.detach().requires_grad_() for x in (query, key, value)]
    output = attend(*leaves, **options).output
    return torch.autograd.grad(output, leaves, torch.as_tensor(upstream, dtype=output.dtype).expand_as(output))


# --- rows that see no key


@case("https://github.com/pytorch/pytorch/issues/160064", wrong=("softmax of nothing", "finite fill"))
def a_head_that_sees_nothing_says_nothing_whether_or_not_more_is_asked_for(attend):
    q, k, v = tensors(1, 3, 5, 5, 1)
    mask = torch.tensor([True, True, False])[None, :, None, None]
    found = attend(q, k, v, mask=mask)
    assert (found.output[0, 2] == 0).all()
    close(found.output[0, :2], attend(q[:, :2], k[:, :2], v[:, :2]).output[0])
    assert torch.equal(attend(q, k, v, mask=mask, statistics=["sink"]).output, found.output)
    assert (weights(attend, q, k, mask=mask)[0, 2] == 0).all()


@case("https://github.com/pytorch/pytorch/issues/41508", wrong=("dead rows ignored in gradients", "softmax of nothing"))
def a_padded_first_token_under_causal_leaves_gradients_finite(attend):
    q, k, v = tensors(2, 2, 3, 3, 2)
    mask = torch.ones(2, 1, 1, 3, dtype=torch.bool)
    mask[0, ..., 0] = False
    upstream = torch.ones(2, 2, 3, 2, dtype=torch.float64)
    upstream[0, :, 0] = 0  # a loss on healthy rows alone
    for flow in (upstream, torch.ones_like(upstream)):
        d_q, d_k, d_v = slopes(attend, q, k, v, flow, causal=True, mask=mask)
        assert all(x.isfinite().all() for x in (d_q, d_k, d_v))
        assert (d_q[0, :, 0] == 0).all()
        assert (d_k[0, :, 0] == 0).all()
        assert (d_v[0, :, 0] == 0).all()
        assert (d_v[1] != 0).all()
    assert (attend(q, k, v, causal=True, mask=mask).output[0, :, 0] == 0).all()


@case("https://github.com/pytorch/pytorch/issues/103963", wrong=("softmax of nothing", "finite fill", "bias ignored"))
def a_row_of_false_is_a_row_of_minus_infinity(attend):
    q, k, v = tensors(1, 1, 8, 8, 8)
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[:4, :4] = True
    hidden = attend(q, k, v, mask=mask).output
    added = attend(q, k, v, bias=torch.zeros(8, 8, dtype=q.dtype).masked_fill(~mask, -torch.inf)).output
    assert torch.equal(hidden, added)
    assert (hidden[0, 0, 4:] == 0).all()
    close(hidden[:, :, :4], attend(q[:, :, :4], k[:, :, :4], v[:, :, :4]).output)


@case("https://github.com/pytorch/pytorch/issues/27968", wrong=("softmax of nothing", "finite fill"))
def a_text_of_no_tokens_leaves_the_others_of_its_batch_alone(attend):
    q, k, _ = tensors(4, 5, 5, 5, 4)
    found = weights(attend, q, k, mask=lengths(5, 3, 1, 0, keys=5))
    close(found.sum(-1), torch.tensor([1.0, 1, 1, 0])[:, None, None].expand(4, 5, 5))
    assert (found[3] == 0).all()
    assert (found[2, ..., 0] == 1).all()


@case("https://github.com/microsoft/onnxruntime/pull/28958", wrong=("finite fill", "softmax of nothing"))
def no_key_allowed_gives_zero_and_not_the_mean(attend):
    found = attend(column(0.3), column(1, 2, 6), column(1, 2, 6), mask=torch.zeros(1, 1, dtype=torch.bool))
    assert found.output.item() == 0
    assert found.lse.item() == -torch.inf


@case("https://github.com/pytorch/pytorch/issues/109517", wrong=("bias as mask", "bias ignored"))
def the_smallest_float_is_a_number_like_others_and_minus_infinity_is_not(attend):
    """Added to every score of a row it leaves the row even; -inf leaves nothing."""
    q, k, v = tensors(1, 1, 3, 3, 4, dtype=torch.float32)
    bias = torch.zeros(3, 3)
    bias[1] = torch.finfo(torch.float32).min
    close(attend(q, k, v, bias=bias).output[0, 0, 1], v[0, 0].double().mean(0))
    bias[1] = -torch.inf
    assert (attend(q, k, v, bias=bias).output[0, 0, 1] == 0).all()


@case("https://github.com/pytorch/pytorch/issues/127055", wrong=("online without a guard",))
def a_band_whose_first_keys_are_all_hidden_from_late_rows(attend):
    """Row i sees the ten keys up to its own: from row 512 on, whole blocks of early keys are hidden."""
    i, j = torch.arange(640)[:, None], torch.arange(640)
    band = (j <= i) & (j > i - 10)
    ones = torch.ones(1, 1, 640, 4)
    v = normal(1, 1, 640, 4, dtype=torch.float32)
    sums = torch.cat([torch.zeros(1, 4, dtype=torch.float64), v[0, 0].double().cumsum(0)])
    right = torch.stack([(sums[n + 1] - sums[max(n - 9, 0)]) / min(n + 1, 10) for n in range(640)])
    bias = torch.zeros(640, 640).masked_fill(~band, -torch.inf)
    for rules in ({"mask": band}, {"bias": bias}, {"causal": True, "window": 10}, {"window": (9, 0)}):
        close(attend(ones, ones, v, **rules).output[0, 0], right, 1e-5)


@case("https://github.com/pytorch/pytorch/issues/81077", wrong=("softmax of nothing", "finite fill"))
def a_padded_text_is_the_same_with_and_without_gradients(attend):
    q, k, v = tensors(2, 2, 3, 3, 2)
    mask = lengths(0, 3, keys=3)
    learning = attend(q.requires_grad_(), k, v, mask=mask).output
    with torch.no_grad():
        reading = attend(q, k, v, mask=mask).output
    assert torch.equal(learning, reading)
    assert (reading[0] == 0).all()


# --- what hidden scores are filled with


@case("https://github.com/TransformerLensOrg/TransformerLens/issues/385", wrong=("fill -1e4",))
def real_scores_of_minus_300000(attend):
    q, k = column(-300, dtype=torch.float32), column(1000, 1, dtype=torch.float32)
    found = weights(attend, q, k, scale=1.0, mask=torch.tensor([True, False])[None])
    assert found.flatten().tolist() == [1, 0]


@case("https://github.com/huggingface/transformers/issues/3181", wrong=("fill -1e4",))
def real_scores_of_minus_30000(attend):
    q, k, v = (column(*x, dtype=torch.float32) for x in ([-300], [100, 99], [1, 5]))
    assert attend(q, k, v, scale=1.0, mask=torch.tensor([True, False])[None]).output.item() == 1


@case("https://github.com/awslabs/gluonts/pull/1401", wrong=("fill -1e-9", "mask times scores"))
def what_a_hidden_key_holds_is_of_no_account(attend):
    q, k, v = tensors(1, 2, 3, 3, 4)
    mask = lengths(2, keys=3)
    before = attend(q, k, v, mask=mask).output
    k[:, :, 2], v[:, :, 2] = 7.0, -5.0
    assert torch.equal(attend(q, k, v, mask=mask).output, before)


@case("https://github.com/hyunwoongko/transformer/issues/10", wrong=("fill -1e-9", "mask after softmax"))
def a_hidden_key_fifty_times_as_large(attend):
    q, k, v = tensors(1, 1, 3, 3, 4)
    mask = lengths(2, keys=3)
    before = attend(q, k, v, mask=mask).output
    k[:, :, 2] *= 50
    v[:, :, 2] *= 50
    assert torch.equal(attend(q, k, v, mask=mask).output, before)


@case("https://github.com/lucidrains/memory-compressed-attention/issues/2", wrong=("mask after softmax", "fill +inf"))
def causal_rows_sum_to_one(attend):
    q, k, _ = tensors(1, 1, 3, 3, 4)
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    close(weights(attend, q, k, mask=mask).sum(-1), torch.ones(1, 1, 3))
    assert weights(attend, q, k, mask=mask)[0, 0, 0].tolist() == [1, 0, 0]


@case("https://github.com/georg-wolflein/good-features/pull/1", wrong=("mask times scores",))
def three_of_six_scores(attend):
    mask = torch.tensor([True, True, True, False, False, False])[None]
    found = weights(attend, column(1), column(0.43, -0.21, 0.99, 0.32, -0.35, 0.04), scale=1.0, mask=mask)
    close(found[0, 0, 0], [0.3051, 0.1609, 0.5341, 0, 0, 0], 5e-5)


@case("https://github.com/microsoft/onnxruntime/issues/14363", wrong=("or", "mask replaces causal", "causal ignored"))
def a_mask_of_tokens_and_causal(attend):
    mask = torch.tensor([0, 1, 1, 0, 0, 1, 0]).bool()[None]
    assert seen_keys(attend, 7, 7, causal=True, mask=mask) == [[], [1], [1, 2], [1, 2], [1, 2], [1, 2, 5], [1, 2, 5]]
    q, k, v = tensors(1, 13, 7, 7, 37)
    found = attend(q, k, v, causal=True, mask=mask).output
    assert (found[:, :, 0] == 0).all()
    close(found[:, :, 1], v[:, :, 1])


# --- what a mask is


@case("https://github.com/pytorch/pytorch/issues/21518", wrong=("mask added", "inverted"))
def a_triangle_of_true_hides_the_future(attend):
    assert seen_keys(attend, 4, 4, mask=torch.ones(4, 4, dtype=torch.bool).tril()) == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_a_triangle_of_ones_is_no_mask():
    """https://github.com/pytorch/pytorch/issues/21518: users passed 0 and 1, which were added to the scores."""
    q, k, v = tensors(1, 2, 4, 4, 4)
    with pytest.raises(ArgumentTypeError, match=r"mask must be bool \(True = visible\), got torch.float32. Numbers .* go to `bias`"):
        our_attend(q, k, v, mask=torch.ones(4, 4).tril())


@case("https://github.com/pytorch/pytorch/issues/107084", wrong=("bias as mask", "bias ignored"))
def a_bias_is_added_in_inference_as_in_training(attend):
    q, k, v = tensors(1, 2, 5, 5, 4)
    bias = normal(1, 2, 5, 5, seed=9)
    right = torch.softmax(q @ k.mT / 2 + bias, -1) @ v
    with torch.no_grad():
        close(attend(q, k, v, bias=bias).output, right)
    close(attend(q.requires_grad_(), k, v, bias=bias).output, right)


@case("https://github.com/mlverse/torch/issues/1205", wrong=("bias ignored", "inverted"))
def padding_as_minus_infinity_is_padding_as_false(attend):
    q, k, v = tensors(10, 1, 5, 5, 2)
    mask = lengths(*[1, 2, 3, 4, 5] * 2, keys=5)
    bias = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    assert torch.equal(attend(q, k, v, bias=bias).output, attend(q, k, v, mask=mask).output)
    close(attend(q, k, v, mask=mask).output[0, 0], v[0, 0, :1].expand(5, 2))


@case("https://github.com/InseeFrLab/torchTextClassifiers/pull/92", wrong=("inverted",))
def true_keeps(attend):
    q, k, v = tensors(1, 1, 3, 3, 4)
    before = attend(q, k, v, mask=lengths(2, keys=3)).output
    padding, token = v.clone(), v.clone()
    padding[:, :, 2] += 1
    token[:, :, 0] += 1
    assert torch.equal(attend(q, k, padding, mask=lengths(2, keys=3)).output, before)
    assert not torch.equal(attend(q, k, token, mask=lengths(2, keys=3)).output, before)


@case("https://github.com/onnx/onnx/pull/8068", wrong=("zero times inf",))
def what_is_allowed_stays_a_number(attend):
    mask = torch.tensor([[True, False], [True, True]])
    found = attend(column(1, 1), column(0, log(3)), column(1, 3), mask=mask).output
    close(found[0, 0, :, 0], [1, 0.25 * 1 + 0.75 * 3])


# --- over which axis a mask lies


@case(
    "https://github.com/line/lighthouse/pull/77",
    "https://github.com/lsdefine/attention-is-all-you-need-keras/issues/36",
    "https://github.com/reczoo/FuxiCTR/issues/130",
    wrong=("tiled over heads", "mask of row 0"),
)
def each_text_has_its_own_padding_in_every_head(attend):
    q, k, _ = tensors(2, 2, 3, 3, 2)
    found = weights(attend, q, k, mask=lengths(3, 2, keys=3))
    assert (found[0, ..., 2] > 0).all()
    assert (found[1, ..., 2] == 0).all()
    found = weights(attend, q, k, mask=lengths(3, 1, keys=3))
    assert (found[0] > 0).all()
    assert (found[1] == torch.tensor([1, 0, 0])).all()


@case("https://github.com/pytorch/pytorch/issues/63271", wrong=("mask on queries",))
def a_padded_key_is_no_padded_query(attend):
    assert seen_keys(attend, 5, 5, causal=True, mask=lengths(4, keys=5)) == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]]


@case("https://github.com/tenstorrent/tt-metal/issues/39910", wrong=("mask as long as keys",))
def one_mask_for_a_batch(attend):
    q, k, v = tensors(32, 1, 1, 32, 8)
    mask = torch.arange(32) % 3 != 1
    assert torch.equal(attend(q, k, v, mask=mask[None, None, None]).output, attend(q, k, v, mask=mask.expand(32, 1, 1, 32).contiguous()).output)
    assert (weights(attend, q, k, mask=mask[None, None, None]).ne(0) == mask).all()


# --- where causal begins


@case("https://github.com/pytorch/pytorch/issues/144858", wrong=("top left",))
def one_query_after_a_cache_sees_all(attend):
    q, k, v = tensors(1, 1, 1, 5, 4)
    close(attend(q, k, v, causal=True).output, attend(q, k, v).output)
    assert seen_keys(attend, 1, 5, causal=True) == [[0, 1, 2, 3, 4]]
    assert torch.equal(attend(q, k, v, causal=True, query_offset=0).output, v[:, :, :1])


@case("https://github.com/pytorch/pytorch/issues/108108", "https://github.com/Dao-AILab/flash-attention/issues/282", wrong=("top left", "one key too many"))
def the_last_query_stands_at_the_last_key(attend):
    assert seen_keys(attend, 2, 5, causal=True) == [[0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert seen_keys(attend, 5, 2, causal=True) == [[], [], [], [0], [0, 1]]
    assert seen_keys(attend, 2, 5, causal=True, query_offset=0) == [[0], [0, 1]]


@case("https://github.com/google/flax/issues/5591", wrong=("top left", "causal ignored"))
def a_step_sees_the_slots_that_are_filled(attend):
    for step in range(3):
        assert seen_keys(attend, 1, 4, causal=True, query_offset=step) == [list(range(step + 1))]


@case("https://github.com/facebookresearch/fairseq/issues/1495", wrong=("strictly before", "one key too many"))
def a_query_sees_its_own_key(attend):
    q, k, v = tensors(1, 1, 3, 3, 4)
    assert torch.equal(attend(q, k, v, causal=True).output[:, :, 0], v[:, :, 0])
    assert seen_keys(attend, 3, 3, causal=True) == [[0], [0, 1], [0, 1, 2]]
    assert seen_keys(attend, 3, 3, window=(None, -1)) == [[], [0], [0, 1]]


# --- an option must not change another


@case(
    "https://github.com/keras-team/keras/issues/23038",
    "https://github.com/huggingface/transformers/pull/30652",
    "https://github.com/facebookresearch/xformers/issues/103",
    "https://github.com/pytorch/pytorch/issues/99282",
    wrong=("causal ignored",),
)
def causal_is_causal_whatever_else_is_asked(attend):
    q, k, v = tensors(4, 2, 3, 3, 4)
    before, more = attend(q, k, v, causal=True).output, attend(q, k, v, causal=True, statistics=["sink"]).output
    assert torch.equal(before, more)
    k[:, :, 2], v[:, :, 2] = 3.0, 3.0
    assert torch.equal(attend(q, k, v, causal=True).output[:, :, :2], before[:, :, :2])


@case(
    "https://github.com/pytorch/pytorch/pull/178588",
    "https://github.com/AI-Hypercomputer/maxtext/issues/878",
    wrong=("mask replaces causal", "or", "causal ignored"),
)
def a_mask_and_causal_are_both_kept(attend):
    """A mask that hides the past, under causal: each query sees itself alone."""
    assert seen_keys(attend, 3, 3, causal=True, mask=torch.ones(3, 3, dtype=torch.bool).triu()) == [[0], [1], [2]]
    assert seen_keys(attend, 4, 4, causal=True, mask=torch.tensor([False, True, True, True])[None]) == [[], [1], [1, 2], [1, 2, 3]]


# --- windows


@case(
    "https://github.com/huggingface/transformers/issues/39408",
    "https://github.com/huggingface/transformers/pull/26792",
    wrong=("window + 1", "window - 1"),
)
def a_window_of_three_is_three_keys_with_the_querys_own(attend):
    assert seen_keys(attend, 5, 5, causal=True, window=3) == [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert seen_keys(attend, 5, 5, window=3) == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4]]


@case("https://github.com/ml-explore/mlx-lm/pull/390", wrong=("window + 1", "window - 1"))
def a_step_has_the_window_of_the_whole_text(attend):
    q, k, v = tensors(1, 1, 6, 6, 4)
    whole = attend(q, k, v, causal=True, window=3).output
    close(attend(q[:, :, 5:], k, v, causal=True, window=3).output, whole[:, :, 5:])
    close(attend(q[:, :, 5:], k[:, :, 3:], v[:, :, 3:]).output, whole[:, :, 5:])


@case("https://github.com/jax-ml/jax/issues/32300", wrong=("window needs mask", "window 0 is off"))
def a_window_needs_no_mask(attend):
    q, k, v = tensors(1, 1, 4, 4, 4)
    assert torch.equal(attend(q, k, v, window=(0, 0)).output, v)


@case("https://github.com/unslothai/unsloth/pull/8253", wrong=("window 0 is off", "window needs mask"))
def a_window_of_zero_is_taken_literally(attend):
    assert seen_keys(attend, 5, 5, causal=True, window=3) == [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert seen_keys(attend, 5, 5, causal=True, window=0) == [[]] * 5
    assert seen_keys(attend, 3, 3, window=0) == [[1, 2], [2], []]


# --- scale


@case(
    "https://github.com/lucidrains/vit-pytorch/issues/65",
    "https://github.com/esceptico/perceiver-io/issues/9",
    "https://github.com/mlc-ai/mlc-llm/pull/3426",
    wrong=("model width", "times root", "no scale"),
)
def scores_are_divided_by_the_root_of_a_heads_width(attend):
    """Width 4: q·k = 2·log 3 is a score of log 3, so 3 to 1."""
    q = torch.tensor([2.0, 0, 0, 0]).expand(1, 2, 1, 4)
    k = torch.tensor([[log(3), 5, 5, 5], [0, 5, 5, 5]]).expand(1, 2, 2, 4)
    close(weights(attend, q, k), [[[[0.75, 0.25]]] * 2])


@case("https://github.com/TransformerLensOrg/TransformerLens/pull/694", wrong=("default scale", "times root"))
def the_scale_given_is_the_scale_taken(attend):
    q, k = torch.zeros(1, 1, 1, 256), torch.zeros(1, 1, 2, 256)
    q[..., 0], k[:, :, 0, 0] = 16, log(3)
    close(weights(attend, q, k), [[[[0.75, 0.25]]]])
    close(weights(attend, q, k, scale=2 / 16), [[[[0.9, 0.1]]]])


@case("https://github.com/pytorch/pytorch/pull/105202", wrong=("size of scale", "default scale"))
def a_negative_scale(attend):
    q, k = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 2, 8)
    q[..., 0], k[:, :, 0, 0] = 2, log(3)
    close(weights(attend, q, k, scale=-0.5), [[[[0.25, 0.75]]]])


@case("https://github.com/NVIDIA/cudnn-frontend/pull/804", wrong=("mask before scale",))
def causal_under_a_scale_that_is_negative_or_zero(attend):
    for scale in (-1.0, 0.0):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            q, k, v = (column(*x, dtype=dtype) for x in ([1, 1], [1, 1], [1, 3]))
            assert attend(q, k, v, causal=True, scale=scale).output.flatten().tolist() == [1, 2]
            assert all(slope.isfinite().all() for slope in slopes(attend, q, k, v, causal=True, scale=scale))


# --- heads


@case("https://github.com/facebookresearch/xformers/issues/677", wrong=("axes swapped",))
def heads_come_before_tokens(attend):
    """As many heads as tokens: shapes cannot tell which is which."""
    q, k, v = tensors(1, 3, 3, 3, 4)
    before = attend(q, k, v).output
    v[:, 1] += 1
    after = attend(q, k, v).output
    assert torch.equal(after[:, [0, 2]], before[:, [0, 2]])
    close(after[:, 1], before[:, 1] + 1)


@case(
    "https://github.com/onnx/onnx/pull/7274",
    "https://github.com/apple/axlearn/pull/842",
    "https://github.com/PSAL-POSTECH/ONNXim/pull/34",
    "https://github.com/PrimeIntellect-ai/prime-rl/pull/2681",
    wrong=("tiled groups", "first group", "half the groups", "repeated along keys"),
)
def heads_share_key_heads_in_runs(attend):
    for heads, groups, right in ((4, 2, [0, 0, 1, 1]), (8, 4, [0, 0, 1, 1, 2, 2, 3, 3]), (4, 4, [0, 1, 2, 3]), (3, 1, [0, 0, 0]), (6, 2, [0, 0, 0, 1, 1, 1])):
        q, k, _ = tensors(1, heads, 3, 5, 4, groups=groups)
        v = torch.arange(groups, dtype=q.dtype)[None, :, None, None].expand(1, groups, 5, 2)
        close(attend(q, k, v).output, torch.tensor(right)[None, :, None, None].expand(1, heads, 3, 2))
    q, k, v = tensors(1, 4, 3, 3, 4, groups=2)
    close(attend(q, k, v).output, torch.softmax(q @ k.repeat_interleave(2, 1).mT / 2, -1) @ v.repeat_interleave(2, 1))


# --- caps and sinks


@case("https://github.com/onnx/onnx/pull/7865", wrong=("cap after mask",))
def the_cap_comes_before_the_mask(attend):
    found = weights(attend, column(1), column(1, 2, 30), scale=1.0, softcap=2.0, mask=lengths(2, keys=3))
    one, two = exp(2 * tanh(0.5)), exp(2 * tanh(1))
    close(found[0, 0, 0], [one / (one + two), two / (one + two), 0])
    assert found[0, 0, 0, 2] == 0


@case("https://github.com/TransformerLensOrg/TransformerLens/pull/1621", wrong=("no sink", "sink renormalised", "one sink for all", "sink scaled"))
def a_row_and_its_sink_are_one(attend):
    """Two even scores of 0 and a logit of 10: the keys get 2 parts of 2 + e^10."""
    q, k, sink = torch.zeros(1, 2, 2, 1), torch.zeros(1, 2, 2, 1), torch.tensor([10.0, -10.0])
    parts = [2 + exp(10), 2 + exp(-10)]
    found = attend(q, k, torch.ones(1, 2, 2, 1), sink=sink, scale=0.5, statistics=["sink"])
    close(found.output[0, :, 0, 0] * torch.tensor([1e4, 1]), [2e4 / parts[0], 2 / parts[1]])
    close(found.statistics["sink"][0, :, 1], [exp(10) / parts[0], exp(-10) / parts[1]])
    close(found.lse[0, :, 0], [log(whole) for whole in parts], 2e-6)


@case("https://github.com/ROCm/rocm-libraries/pull/12229", wrong=("sink twice", "no sink"))
def a_sink_counts_once_however_keys_are_split(attend):
    q, k, v = torch.zeros(1, 1, 512, 1), torch.zeros(1, 1, 700, 1), torch.ones(1, 1, 700, 1)
    mask = torch.arange(700) >= 350
    for hidden, seen in ((mask, 350), (~mask, 350), (mask | True, 700), (mask & False, 0)):
        found = attend(q, k, v, mask=hidden[None], sink=torch.tensor([5.0]))
        close(found.lse, torch.full((1, 1, 512), log(seen + exp(5))), 1e-5)
        close(found.output, torch.full((1, 1, 512, 1), seen / (seen + exp(5))), 1e-5)


@case("https://github.com/pytorch/torchtitan/pull/2211", wrong=("sink twice", "sink renormalised"))
def a_sink_is_a_gate_on_what_the_head_says(attend):
    """Not a fault: softmax times sigmoid(lse - sink) is softmax with one more logit."""
    q, k, v = tensors(1, 2, 3, 5, 4)
    sink = torch.tensor([0.5, -1.0], dtype=q.dtype)
    alone = attend(q, k, v)
    close(attend(q, k, v, sink=sink).output, alone.output * torch.sigmoid(alone.lse - sink[:, None])[..., None])


# --- numbers that are large, or are none


@case("https://github.com/pytorch/pytorch/pull/60940", "https://github.com/philipturner/metal-flash-attention/issues/8", wrong=("softmax of nothing",))
def half_precision_scores_beyond_its_range(attend):
    """Scores of ±320000 where float16 ends at 65504; and a hidden row beside them."""
    for number in (200.0, 60.0):
        x = torch.stack([torch.full((64,), number), torch.full((64,), -number)]).half()[None, None]
        assert torch.equal(attend(x, x, x).output, x)
    mask = torch.tensor([[True, True], [False, False]])
    assert (attend(x, x, x, mask=mask).output[0, 0, 1] == 0).all()


@case("https://github.com/huggingface/transformers/pull/27114", wrong=("bias ignored",))
def two_smallest_floats_on_one_score(attend):
    """Padding and causality each add the smallest float: the sum is -inf in float32, and rows of nothing but it say nothing."""
    least = torch.finfo(torch.float32).min
    q, k, v = tensors(1, 1, 5, 5, 4, dtype=torch.float32)
    bias = torch.where(torch.arange(5) >= 3, 0.0, least) + torch.where(torch.ones(5, 5).tril() > 0, 0.0, least)
    found = attend(q, k, v, bias=bias).output
    assert found.isfinite().all()
    close(found[0, 0, 4], attend(q[:, :, 4:], k[:, :, 3:], v[:, :, 3:]).output[0, 0, 0])


@case("https://github.com/pytorch/pytorch/issues/141128", wrong=("contiguous strides",))
def a_nan_that_asks_is_answered_nan_and_no_other_row_is(attend):
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors(2, 4, 16, 16, 8))
    before = attend(q, k, v).output
    q = q.clone()
    q[1, 2, 3] = torch.nan
    found = attend(q, k, v).output
    assert found[1, 2, 3].isnan().all()
    assert found.isnan().sum() == 8
    close(found.nan_to_num(0), before.index_put(tuple(torch.tensor([n]) for n in (1, 2, 3)), torch.zeros(8, dtype=q.dtype)))


@every_backend
@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf, 1e10])
def test_what_is_stored_at_a_hidden_key_is_absent(backend, poison):
    """https://github.com/pytorch/pytorch/issues/101967: 0 · NaN is NaN, so hidden NaN reached outputs."""
    q, k, v = tensors(1, 1, 2, 2, 4)
    mask = torch.tensor([True, False])[None]
    before = our_attend(q, k, v, mask=mask, backend=backend).output
    for x in (k, v):
        kept = x.clone()
        x[0, 0, 1, 0] = poison
        assert torch.equal(our_attend(q, k, v, mask=mask, backend=backend).output, before)
        x.copy_(kept)


# --- how tensors lie in memory


@case("https://github.com/pytorch/pytorch/issues/112577", "https://github.com/pytorch/pytorch/issues/181133", wrong=("contiguous strides",))
def views_are_what_they_show(attend):
    for batch, tokens, heads, width in ((2, 5, 3, 8), (84, 3, 3, 64)):
        views = [normal(batch, tokens, heads, width, seed=seed).transpose(1, 2) for seed in range(3)]
        wide = [normal(batch, heads, tokens, 2 * width + 1, seed=seed)[..., 1::2] for seed in range(3)]
        every_second = [normal(batch, heads, 2 * tokens, width, seed=seed)[:, :, ::2] for seed in range(3)]
        columns = [normal(batch, heads, width, tokens, seed=seed).mT for seed in range(3)]
        for laid in (views, wide, every_second, columns):
            close(attend(*laid).output, attend(*(x.contiguous() for x in laid)).output, 1e-12)


@case("https://github.com/pytorch/pytorch/issues/191937", wrong=("last key lost", "contiguous strides"))
def a_key_head_expanded_over_33_keys(attend):
    q = normal(2, 2, 5, 16, dtype=torch.bfloat16)
    k, v = (normal(2, 1, 33, 16, seed=seed, dtype=torch.bfloat16).expand(2, 2, 33, 16) for seed in (1, 2))
    mask = torch.arange(33) % 5 != 0
    mask[32] = True
    v[:, 0, 32] = 30
    assert torch.equal(attend(q, k, v, mask=mask[None]).output, attend(q, k.contiguous(), v.contiguous(), mask=mask[None]).output)


@case("https://github.com/pytorch/pytorch/issues/176767", wrong=("width of query",))
def the_output_is_as_wide_as_the_value(attend):
    q, k, v = tensors(1, 1, 16, 16, 32, 24)
    assert list(attend(q, k, v).output.shape) == [1, 1, 16, 24]
    close(attend(q, k, v).output, torch.softmax(q @ k.mT * 32**-0.5, -1) @ v)


# --- gradients


@case("https://github.com/marin-community/levanter/pull/449", wrong=("mean over the group", "first of the group"))
def key_heads_gather_gradients_from_all_their_query_heads(attend):
    q, k, v = tensors(2, 4, 3, 5, 4, groups=2)
    upstream = normal(2, 4, 3, 4, seed=8)
    shared = slopes(attend, q, k, v, upstream)
    apart = slopes(attend, q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), upstream)
    close(shared[0], apart[0], 1e-12)
    for ours, theirs in zip(shared[1:], apart[1:], strict=True):
        close(ours, theirs.unflatten(1, (2, 2)).sum(2), 1e-12)


@case("https://github.com/Dao-AILab/flash-attention/issues/355", wrong=("upstream contiguous",))
def a_gradient_that_comes_in_as_a_view(attend):
    q, k, v = tensors(2, 4, 32, 32, 128)
    upstream = normal(2, 32, 4, 128, seed=8).transpose(1, 2)
    for ours, theirs in zip(slopes(attend, q, k, v, upstream), slopes(attend, q, k, v, upstream.contiguous()), strict=True):
        close(ours, theirs, 1e-12)


@case("https://github.com/pytorch/pytorch/issues/158212", wrong=("upstream contiguous", "inverted"))
def gradients_under_an_irregular_mask_of_3072_rows(attend):
    q, k, v = (x.requires_grad_() for x in tensors(1, 1, 3072, 3072, 4))
    i, j = torch.arange(3072)[:, None], torch.arange(3072)
    mask = ((i * 7 + j * 13) % 11 < 4) & (j < i + 900) | (i == j)
    upstream = normal(1, 4, 3072, seed=8).mT[None]
    scores = (q @ k.mT / 2).masked_fill(~mask, -torch.inf)
    right = torch.autograd.grad(torch.softmax(scores, -1) @ v, (q, k, v), upstream)
    for ours, theirs in zip(slopes(attend, q, k, v, upstream, mask=mask), right, strict=True):
        close(ours, theirs, 1e-10)


# --- nothing at all


@case("https://github.com/pytorch/pytorch/issues/141218", "https://github.com/Dao-AILab/flash-attention/issues/1159", wrong=("empty refused",))
def sizes_of_zero(attend):
    for batch, heads, queries, keys, wide in ((0, 10, 3952, 3952, 64), (2, 0, 3, 5, 4), (2, 4, 0, 5, 4), (2, 4, 3, 0, 4), (2, 4, 3, 5, 0), (0, 0, 0, 0, 0)):
        q, k, v = tensors(batch, heads, queries, keys, 4, wide, groups=heads // 2)
        found = attend(q, k, v, causal=True)
        assert list(found.output.shape) == [batch, heads, queries, wide]
        assert list(found.lse.shape) == [batch, heads, queries]
        if keys == 0:
            assert (found.output == 0).all()
            assert (found.lse == -torch.inf).all()
        assert [list(x.shape) for x in slopes(attend, q, k, v)] == [list(x.shape) for x in (q, k, v)]


def test_no_key_heads_for_some_query_heads():
    """https://github.com/pytorch/pytorch/issues/141218: a division by zero ended the process."""
    q, k, v = tensors(1, 4, 3, 5, 4, groups=0)
    with pytest.raises(ShapeError, match=r"heads of key must divide heads of query, got 0 and 4. Choose one of \[1, 2, 4\]"):
        our_attend(q, k, v)


@case("https://github.com/tenstorrent/tt-metal/issues/16021", wrong=("batch lost",))
def a_batch_of_one_stays_a_batch(attend):
    q, k, v = tensors(1, 16, 197, 197, 64, dtype=torch.float32)
    assert list(attend(q, k, v).output.shape) == [1, 16, 197, 64]


# --- layers: how heads are cut from the model width and put together again


def layer(width, heads, **options) -> MultiHeadAttention:
    """A layer whose maps are identities: head i reads features i·D to (i+1)·D, and writes them back."""
    attention = MultiHeadAttention(width, heads, bias=False, dtype=torch.float64, **options)
    with torch.no_grad():
        for w in (attention.w_q, attention.w_k, attention.w_v):
            w.copy_(torch.eye(width, dtype=torch.float64).view(width, heads, -1))
        attention.w_o.copy_(torch.eye(width, dtype=torch.float64).view(heads, -1, width))
    return attention


def test_a_head_reads_its_features_of_every_token():
    """https://github.com/reczoo/FuxiCTR/issues/30: a reshape alone mixes tokens into heads."""
    x = normal(2, 3, 6)
    path = layer(6, 2).trace(x)
    assert torch.equal(path.q, torch.stack([x[..., :3], x[..., 3:]], 1))
    wrong = x.reshape(2, 2, 3, 3)
    assert not torch.equal(path.q, wrong)


def test_heads_are_put_side_by_side_for_each_token():
    """https://github.com/jsbaan/transformer-from-scratch/pull/6: a reshape alone gives [a, b, c, d] to the first token."""
    a, b, c, d, e, f, g, h = range(8)
    x = torch.tensor([[[a, b, e, f], [c, d, g, h]]], dtype=torch.float64)
    attention = layer(4, 2, window=(0, 0))  # each token hears itself alone, so that z is v
    path = attention.trace(x)
    assert path.z.tolist() == [[[[a, b], [c, d]], [[e, f], [g, h]]]]
    assert attention(x).tolist() == [[[a, b, e, f], [c, d, g, h]]]
    assert path.z.reshape(1, 2, 4).tolist() != attention(x).tolist()


def test_a_text_is_not_moved_by_the_others_of_its_batch():
    """https://github.com/gazelle93/Transformer-Various-Positional-Encoding/issues/1: heads merged as though they came before the batch."""
    attention, x = layer(6, 3), normal(2, 4, 6)
    before = attention(x)
    x[1] += 1
    assert torch.equal(attention(x)[0], before[0])
    z = attention.trace(x).z
    wrong = z.transpose(0, 1).reshape(3, 2, 4, 2).reshape(2, 4, 6)
    assert not torch.allclose(attention(x), wrong)


def test_each_head_has_a_map_of_its_own():
    """https://github.com/MarcoMeter/episodic-transformer-memory-ppo/pull/22: one D × D map served all heads."""
    attention, x = MultiHeadAttention(4, 2, dtype=torch.float64), normal(1, 3, 4)
    assert list(attention.w_q.shape) == [4, 2, 2]
    before = attention.trace(x)
    with torch.no_grad():
        attention.w_q[:, 1] *= 2
    after = attention.trace(x)
    assert torch.equal(after.z[:, 0], before.z[:, 0])
    assert not torch.equal(after.z[:, 1], before.z[:, 1])


def test_dropout_divides_by_what_is_kept_on_the_way_back_too():
    """https://github.com/NVIDIA/apex/pull/816: the gradient was multiplied by the rate and not by 1 / (1 - rate)."""
    attention = layer(4, 2, dropout=0.25).train()
    path = attention.trace(normal(1, 3, 4))
    upstream = normal(1, 3, 4, seed=5)
    d_v = torch.autograd.grad(path.z, path.v, upstream.view(1, 3, 2, 2).transpose(1, 2))[0]
    dropped = path.dropout_mask == 0
    assert dropped.any()
    assert not dropped.all()
    right = (torch.where(dropped, 0, path.weights) / 0.75).mT @ upstream.view(1, 3, 2, 2).transpose(1, 2)
    torch.testing.assert_close(d_v, right)


def test_a_padded_text_is_zero_in_every_mode_of_a_layer():
    """torch's own layer gave NaN without gradients and the output's bias with them."""
    attention = MultiHeadAttention(4, 2, dtype=torch.float64).eval()
    with torch.no_grad():
        attention.b_o.copy_(normal(4, seed=3))
    x, mask = normal(2, 3, 4), lengths(0, 3, keys=3)
    learning = attention(x, mask=mask)
    with torch.no_grad():
        reading = attention(x, mask=mask)
    assert torch.equal(learning, reading)
    assert torch.equal(reading[0], attention.b_o.expand(3, 4))


# --- every case on every kernel, and on each of its faults


@every_backend
@pytest.mark.parametrize("check", CASES, ids=lambda check: check.__name__)
def test_case(check, backend):
    check(partial(our_attend, backend=backend))


@pytest.mark.parametrize("check", CASES, ids=lambda check: check.__name__)
def test_a_plain_attention_passes(check):
    check(mutants.attend)


@pytest.mark.parametrize(("check", "fault"), [pytest.param(check, fault, id=f"{check.__name__}-{fault}") for check in CASES for fault in check.wrong])
def test_the_fault_is_noticed(check, fault):
    with pytest.raises((AssertionError, RuntimeError, IndexError)):
        check(partial(mutants.attend, fault=fault))


def test_no_fault_is_forgotten():
    assert {fault for check in CASES for fault in check.wrong} == set(mutants.FAULTS)


def test_the_public_name_is_the_function_that_was_judged():
    assert hw.attend is our_attend

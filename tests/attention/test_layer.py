"""The path and the short cut against a layer in plain Python: values, gradients, and what must not matter."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from headwise.attention.layer import LayerConfig, LayerInputs, LayerParams, Trace, forward, trace
from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.errors import ArgumentError, ArgumentTypeError, ShapeError
from tests.attention.layers import LAYERS, B, C, D, E, G, H, Layer, M, S, T, maps
from tests.attention.oracle import STEP
from tests.attention.problem import agree, normal

each_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)


@each_layer
def test_every_tensor_of_the_path_is_that_of_plain_python(layer: Layer):
    path, right = layer.trace(), layer.oracle()
    for name in ("q", "k", "v", "weights", "z", "writes", "out"):
        agree(getattr(path, name), torch.from_numpy(right[name].real), layer.allowed(name, path), name)
    assert torch.equal(path.visible.expand(path.weights.shape), torch.from_numpy(right["seen"]))
    assert torch.equal(path.scores == -torch.inf, ~torch.from_numpy(right["seen"]))


@each_layer
def test_the_short_cut_gives_the_same_output(layer: Layer):
    path = layer.trace()
    agree(layer.forward(), path.out, layer.allowed("out", path))


@each_layer
def test_gradients_are_those_of_plain_python(layer: Layer):
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in layer.tensors().items()}
    live, upstream = layer.having(leaves), normal(*layer.x.shape, seed=41)
    ways = {way: torch.autograd.grad(out, list(leaves.values()), upstream) for way, out in (("path", live.trace().out), ("short cut", live.forward()))}
    largest = max(float(slope.abs().amax()) for slope in ways["path"])
    for n, (name, leaf) in enumerate(leaves.items()):
        generator = np.random.default_rng(n)
        for _ in range(2):
            place = tuple(int(generator.integers(length)) for length in leaf.shape)
            right = derivative(layer, name, place, upstream.numpy())
            for way, slopes in ways.items():
                assert abs(float(slopes[n][place]) - right) <= 2**-52 * 512 * largest, (way, name, place, float(slopes[n][place]), right)


def derivative(layer: Layer, name: str, place: tuple[int, ...], upstream: np.ndarray) -> float:
    """d Σ out · upstream / d one number, from a step into the imaginary direction."""
    moved = layer.tensors()[name].detach().to(torch.complex128).clone()
    moved[place] += STEP * 1j
    return float((layer.having({name: moved}).oracle()["out"] * upstream).sum().imag / STEP)


def test_the_trace_holds_every_tensor_by_name():
    path = LAYERS["cap, sink, scale"].trace()
    shapes = {field.name: None if getattr(path, field.name) is None else list(getattr(path, field.name).shape) for field in fields(Trace)}
    assert shapes == {
        "x": [B, S, M],
        "context": [B, S, M],
        "q": [B, H, S, D],
        "k": [B, G, S, D],
        "v": [B, G, S, E],
        "visible": [B, H, S, S],
        "scores": [B, H, S, S],
        "weights": [B, H, S, S],
        "sink": [B, H, S],
        "dropout_mask": None,
        "z": [B, H, S, E],
        "writes": [B, H, S, M],
        "out": [B, S, M],
    }
    assert list(path.concat.shape) == [B, S, H * E]


@each_layer
def test_a_row_and_its_sink_are_one(layer: Layer):
    path = layer.trace()
    agree(path.weights.sum(-1) + path.sink, torch.ones(path.sink.shape, dtype=torch.float64), 2**-52 * path.weights.shape[-1])
    assert bool((path.sink > 0).all()) == ("sink" in layer.maps)


def test_concat_reads_the_heads_in_the_order_of_w_o():
    layer = LAYERS["biased"]
    path = layer.trace()
    agree(path.concat @ layer.maps["w_o"].flatten(0, 1) + layer.maps["b_o"], path.out, layer.allowed("out", path))


def test_a_head_is_moved_by_its_own_slices_alone():
    layer = LAYERS["causal"]
    before = layer.trace().writes
    for name in ("w_q", "b_q", "w_o"):
        changed = layer.maps[name].clone()
        changed.select(0 if name in ("b_q", "w_o") else 1, 4).add_(0.3)
        after = layer.having({name: changed}).trace().writes
        moved = (before != after).flatten(2).any(-1).all(0)
        assert moved.tolist() == [head == 4 for head in range(H)], name


def test_a_key_head_moves_the_query_heads_that_share_it():
    layer = LAYERS["causal"]
    changed = layer.maps["w_k"].clone()
    changed[:, 1] += 0.3
    moved = (layer.trace().writes != layer.having({"w_k": changed}).trace().writes).flatten(2).any(-1).all(0)
    assert moved.tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize("position", [None, *(LAYERS[f"past, {kind}"].position for kind in ("rotary", "alibi", "buckets"))])
@pytest.mark.parametrize("cuts", [[1] * S, [5, 2], [2, 0, 4, 1], [1, 6]])
def test_a_text_in_chunks_is_the_text_at_once(position, cuts):
    layer = replace(LAYERS["window"], position=position)
    text, params, config, _ = layer.parts()
    whole, cache, outs = forward(text, params, config), None, []
    for chunk in text.split(cuts, 1):
        passed = forward(chunk, params, config, LayerInputs(past=cache))
        cache = passed.cache
        outs.append(passed.out)
    assert cache.length == S
    agree(torch.cat(outs, 1), whole.out, layer.allowed("out", layer.trace()))
    agree(cache.k, whole.cache.k, layer.allowed("k", layer.trace()))


def test_what_is_hidden_cannot_matter():
    layer = LAYERS["mask of each head"]
    x, params, config, inputs = layer.parts()
    hidden = inputs.mask.clone()
    hidden[0, :, :, 3] = False
    others = [token for token in range(S) if token != 3]
    for poison in (torch.nan, torch.inf, -1e300):
        spoilt = x.clone()
        spoilt[0, 3] = poison
        for way in (lambda *parts: trace(*parts).out, lambda *parts: forward(*parts).out):
            clean, dirty = way(x, params, config, replace(inputs, mask=hidden)), way(spoilt, params, config, replace(inputs, mask=hidden))
            agree(dirty[:, others], clean[:, others], layer.allowed("out", layer.trace()), str(poison))
            agree(dirty[1], clean[1], layer.allowed("out", layer.trace()), str(poison))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_what_is_hidden_has_no_part_in_gradients(poison):
    """Token 4 is hidden from all: the gradients of the others, and of x, are as without it."""
    layer = LAYERS["cross"]
    x, params, config, inputs = layer.parts()
    hidden = torch.ones(B, 1, T, S, dtype=torch.bool)
    hidden[..., 4] = False
    spoilt = inputs.context.clone()
    spoilt[:, 4] = poison
    for way in (lambda *parts: trace(*parts).out, lambda *parts: forward(*parts).out):
        clean, dirty = (slopes(way, x, context, hidden, params, config) for context in (inputs.context, spoilt))
        for found, right in zip(dirty, clean, strict=True):
            assert right.abs().amax() > 0.1
            agree(found, right, 2**-52 * 64 * float(right.abs().amax()) * S * M)


def slopes(way, x, context, mask, params, config):
    """What x and context have to do with the output."""
    leaves = [x.clone().requires_grad_(), context.clone().requires_grad_()]
    out = way(leaves[0], params, config, LayerInputs(context=leaves[1], mask=mask))
    return torch.autograd.grad(out.square().sum(), leaves)


def test_a_row_that_sees_nothing_says_nothing():
    layer = LAYERS["biased"]
    x, params, config, _ = layer.parts()
    nothing = torch.ones(B, 1, T, T, dtype=torch.bool)
    nothing[1, 0, 2] = False
    path = trace(x, params, config, LayerInputs(mask=nothing))
    assert path.z[1, :, 2].eq(0).all()
    assert path.weights[1, :, 2].eq(0).all()
    assert path.writes[1, :, 2].eq(0).all()
    assert torch.equal(path.out[1, 2], layer.maps["b_o"])
    assert torch.equal(forward(x, params, config, LayerInputs(mask=nothing)).out[1, 2], layer.maps["b_o"])


def test_a_nan_that_is_seen_stays_in_its_row():
    x, params, config, _ = LAYERS["biased"].parts()
    q_only = replace(params, b_q=None)
    spoilt = x.clone()
    spoilt[0, 1] = torch.nan
    path = trace(x, q_only, config, LayerInputs(context=spoilt, mask=torch.tensor([True, False, True])))
    assert path.out.isfinite().all()
    seen = trace(spoilt, q_only, config, LayerInputs(context=x))
    assert seen.out[0, 1].isnan().all()
    assert seen.out[0, [0, 2]].isfinite().all()
    assert seen.out[1].isfinite().all()


def test_half_precision_scores_are_taken_in_float32():
    """q·k of 230,400 overflows float16; scaled by 1/8 it would fit, and its softmax does not care."""
    eye = torch.eye(64, dtype=torch.float16)[:, None, :]
    params = LayerParams(eye, eye, eye, eye.transpose(0, 1))
    x = torch.full((1, 2, 64), 60.0, dtype=torch.float16)
    x[0, 1] = -60
    path = trace(x, params)
    assert path.weights.dtype == torch.float32
    assert path.out.dtype == torch.float16
    assert path.out.isfinite().all()
    assert torch.equal(path.weights[0, 0], torch.eye(2))
    assert torch.equal(forward(x, params).out, path.out)


def test_nothing_is_as_good_as_a_mask_of_ones_and_a_bias_of_zeros():
    layer = LAYERS["causal"]
    x, params, config, _ = layer.parts()
    plain = trace(x, params, config).out
    assert torch.equal(plain, trace(x, params, config, LayerInputs(mask=torch.ones(S, S, dtype=torch.bool))).out)
    assert torch.equal(plain, trace(x, params, config, LayerInputs(bias=torch.zeros(1, 1, 1, S, dtype=torch.float64))).out)


def test_a_bias_of_minus_infinity_hides_as_a_mask_does():
    layer = LAYERS["cross"]
    x, params, config, inputs = layer.parts()
    keep = torch.tensor([True, True, False, True, True, False, True])
    bias = torch.zeros(S, dtype=torch.float64).masked_fill(~keep, -torch.inf)
    spoilt = inputs.context.clone()
    spoilt[:, 2] = torch.nan
    masked, biased = (trace(x, params, config, LayerInputs(context=spoilt, **how)) for how in ({"mask": keep}, {"bias": bias}))
    for name in ("visible", "scores", "weights", "z", "out"):
        assert torch.equal(getattr(biased, name), getattr(masked, name)), name
    agree(forward(x, params, config, LayerInputs(context=spoilt, bias=bias)).out, masked.out, layer.allowed("out", layer.trace()))


@pytest.mark.parametrize("sizes", [(0, T), (B, 0)])
def test_empty_sizes(sizes):
    _, params, config, _ = LAYERS["causal"].parts()
    x = torch.zeros(*sizes, M, dtype=torch.float64)
    assert list(trace(x, params, config).out.shape) == list(forward(x, params, config).out.shape) == [*sizes, M]


def test_no_keys_at_all_leave_the_bias():
    x, params, config, _ = LAYERS["biased"].parts()
    nobody = LayerInputs(context=torch.zeros(B, 0, M, dtype=torch.float64))
    for out in (trace(x, params, config, nobody).out, forward(x, params, config, nobody).out):
        assert torch.equal(out, params.b_o.expand(B, T, M))


@pytest.mark.parametrize(("rate", "values"), [(0.25, {0.0, 4 / 3}), (1.0, {0.0})])
def test_dropout_multiplies_weights_drawn_afresh_for_each(rate, values):
    text, params, config, _ = LAYERS["causal"].parts()
    config = replace(config, dropout=rate)
    torch.manual_seed(5)
    path = trace(text, params, config)
    torch.manual_seed(5)
    passed = forward(text, params, config)
    assert torch.equal(passed.out, path.out)
    assert set(path.dropout_mask.unique().tolist()) == values
    agree(path.z, torch.einsum("bhts,bhse->bhte", path.weights * path.dropout_mask, path.v.repeat_interleave(2, 1)), 1e-15 * S * float(path.v.abs().max()))
    agree(path.weights.sum(-1), torch.ones(B, H, S, dtype=torch.float64), 2**-52 * S)
    if rate < 1:
        for axis in range(3):
            first, second = path.dropout_mask.unbind(axis)[:2]
            assert not torch.equal(first, second), "batch rows, heads and rows have draws of their own"
        assert not torch.equal(trace(text, params, config).dropout_mask, path.dropout_mask), "each call draws again"


def test_dropout_is_unbiased_and_has_the_gradient_of_what_was_kept():
    text, params, config, _ = LAYERS["causal"].parts()
    v = params.w_v.clone().requires_grad_()
    config, params = replace(config, dropout=0.25), replace(params, w_v=v)
    torch.manual_seed(3)
    path = trace(text, params, config)
    upstream = normal(*path.out.shape, seed=8)
    found = torch.autograd.grad(path.out, v, upstream)[0]
    d_z = torch.einsum("btm,hem->bhte", upstream, params.w_o)
    d_v = torch.einsum("bhts,bhte->bhse", path.weights * path.dropout_mask, d_z).unflatten(1, (G, H // G)).sum(2)
    agree(found, torch.einsum("bsm,bgse->mge", text, d_v), 1e-13 * float(found.abs().max()))
    kept = torch.stack([trace(text, params, config).dropout_mask for _ in range(60)])
    assert abs(float(kept.mean()) - 1) < 4 * float(kept.std()) / kept.numel() ** 0.5


def test_maps_that_do_not_fit_are_refused(plain):
    fine = maps(sink=True)
    wrong = [
        ("w_k", torch.zeros(M, 4, D), r"heads of w_k must divide heads of w_q, got 4 and 6\. Choose 1, 2, 3 or 6\."),
        ("w_q", torch.zeros(M, H * D), r"w_q must have 3 axes \[model, heads, width\], got \[11, 24\]\. Split it by head first\."),
        (
            "w_o",
            torch.zeros(H, D, M),
            r"w_o must be \[6, 5, 11\] beside w_q \[11, 6, 4\], w_k \[11, 3, …\] and w_v \[11, 3, 5\], got \[6, 4, 11\]\. Reshape it\.",
        ),
        ("b_k", torch.zeros(H, D), r"b_k must be \[3, 4\] beside w_q"),
        ("sink", torch.zeros(G), r"sink must be \[6\] beside w_q"),
    ]
    for name, tensor, message in wrong:
        with pytest.raises(ShapeError, match=message):
            LayerParams(**{**fine, name: tensor})


def test_input_that_does_not_fit_is_refused(plain):
    params, crossed = LayerParams(**maps()), LayerParams(**maps(context=C))
    x = torch.zeros(B, T, M, dtype=torch.float64)
    wrong = [
        (params, [[1.0]], {}, ArgumentTypeError, r"x must be a torch\.Tensor, got list\. Convert it with torch\.as_tensor\."),
        (params, x[0], {}, ShapeError, r"x must be \[batch, length, 11\], got \[3, 11\]\. Add the missing axes, or check the width\."),
        (params, x.float(), {}, ArgumentTypeError, r"x must have the dtype of the layer, got torch\.float32 and torch\.float64\. Convert one of them\."),
        (crossed, x, {}, ShapeError, r"context must be given, of width 13, got None\. Self-attention needs a w_k that reads the width of x\."),
        (crossed, x, {"context": x}, ShapeError, r"context must be \[batch, length, 13\], got \[2, 3, 11\]\."),
        (params, x, {"context": x[:1]}, ShapeError, r"context must have the batch of x, got 1 and 2\. Expand the smaller\."),
        (params, x, {"mask": torch.zeros(T, T)}, ArgumentTypeError, r"mask must be bool"),
    ]
    for maps_, text, inputs, error, message in wrong:
        for way in (trace, forward):
            with pytest.raises(error, match=message):
                way(text, maps_, LayerConfig(), LayerInputs(**inputs))


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_a_dropout_that_is_no_share_is_refused(rate):
    with pytest.raises(ArgumentError, match=r"dropout must lie between 0 and 1, got .*\. It is the share of the weights that is dropped\."):
        LayerConfig(dropout=rate)


def test_positions_are_checked_against_the_heads():
    x, params, _, _ = LAYERS["biased"].parts()
    wrong = [
        (Rotary(width=6), r"width must be even and at most that of a head, got 6 and 4\. Pass Rotary"),
        (Alibi((1.0, 0.5)), r"slopes must have one number for each of 6 heads, got 2\. Leave them out for the published ones\."),
        (RelativeBuckets(torch.zeros(8, 2)), r"table must have one column for each of 6 heads, got \[8, 2\]\. Its shape is \[buckets, heads\]\."),
    ]
    for position, message in wrong:
        with pytest.raises(ShapeError, match=message):
            forward(x, params, LayerConfig(position=position))

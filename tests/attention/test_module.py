"""`MultiHeadAttention`: trained, converted from torch, decoded, saved; and every argument that it refuses."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from headwise.attention.layer import forward
from headwise.attention.module import MultiHeadAttention
from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.errors import ArgumentError, ArgumentTypeError, ShapeError
from tests.attention.layers import LAYERS, B, C, D, E, G, H, Layer, M, S, T
from tests.attention.problem import agree, normal


def filled(module: nn.Module, seed: int = 0, size: float = 0.6) -> nn.Module:
    """The same module with every parameter large, biases and sinks too, so that leaving one out is seen."""
    with torch.no_grad():
        for n, parameter in enumerate(module.parameters()):
            parameter.copy_(size * normal(*parameter.shape, seed=seed + n))
    return module


def module_of(layer: Layer) -> MultiHeadAttention:
    """The layer as a module, built by its own arguments."""
    maps = layer.maps
    made = MultiHeadAttention(
        M,
        H,
        G,
        D,
        value_dim=E,
        context_dim=maps["w_k"].shape[0],
        bias="b_q" in maps,
        sink="sink" in maps,
        position=layer.parts()[2].position,
        dtype=torch.float64,
        **layer.config,
    )
    with torch.no_grad():
        for name, tensor in maps.items():
            getattr(made, name).copy_(tensor)
    return made


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_the_module_is_the_layer(layer: Layer):
    module, path = module_of(layer), layer.trace()
    given = dict(layer.inputs)
    cache = layer.parts()[3].past
    if cache is None:
        found = module(layer.x, **given)
        assert torch.equal(module.trace(layer.x, **given).out, path.out)
    else:
        found = module.decode(layer.x, cache, **given).out
        assert torch.equal(module.trace(layer.x, past=cache, **given).out, path.out)
    agree(found, path.out, layer.allowed("out", path))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("across", [False, True])
def test_torchs_own_converts_with_value_and_gradients(batch_first, bias, zero, across):
    width = dict.fromkeys(("kdim", "vdim"), C) if across else {}
    theirs = filled(nn.MultiheadAttention(12, 3, bias=bias, add_zero_attn=zero, batch_first=batch_first, dtype=torch.float64, **width))
    ours = MultiHeadAttention.from_torch(theirs)
    x = normal(B, T, 12, seed=31).requires_grad_()
    context = normal(B, S, C, seed=32).requires_grad_() if across else x
    keep = normal(B, context.shape[1], seed=33) > -0.5
    keep[:, 0] = True
    bias_plane = normal(T, context.shape[1], seed=34)
    upstream = normal(B, T, 12, seed=35)

    def lay(tensor):
        return tensor if batch_first else tensor.transpose(0, 1)

    padding = torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -torch.inf)
    right, weights = theirs(lay(x), lay(context), lay(context), key_padding_mask=padding, attn_mask=bias_plane, average_attn_weights=False)
    found = ours(lay(x), lay(context) if across else None, mask=keep[:, None, None], bias=bias_plane)
    agree(found, right, 2**-52 * 4096)
    path = ours.trace(lay(x), lay(context) if across else None, mask=keep[:, None, None], bias=bias_plane)
    agree(lay(path.out), right, 2**-52 * 4096)
    agree(torch.cat([path.weights, path.sink[..., None]], -1) if zero else path.weights, weights, 2**-52 * 512)

    leaves = [x, context] if across else [x]
    for one, other in zip(torch.autograd.grad(lay(found), leaves, upstream), torch.autograd.grad(lay(right), leaves, upstream, retain_graph=True), strict=True):
        agree(one, other, 2**-52 * 4096 * float(other.abs().max()))
    ours.zero_grad()
    theirs.zero_grad()
    (lay(ours(lay(x), lay(context) if across else None)) * upstream).sum().backward()
    (lay(theirs(lay(x), lay(context), lay(context), need_weights=False)[0]) * upstream).sum().backward()
    agree(ours.w_o.grad.flatten(0, 1).T, theirs.out_proj.weight.grad, 2**-52 * 4096 * float(theirs.out_proj.weight.grad.abs().max()))
    w_q = theirs.q_proj_weight.grad if across else theirs.in_proj_weight.grad[:12]
    agree(ours.w_q.grad.flatten(1).T, w_q, 2**-52 * 4096 * float(w_q.abs().max()))
    if bias:
        agree(ours.b_v.grad.flatten(), theirs.in_proj_bias.grad[24:], 2**-52 * 4096 * float(theirs.in_proj_bias.grad.abs().max()))


def test_what_is_converted_is_a_copy_in_the_same_state():
    theirs = nn.MultiheadAttention(12, 3, dropout=0.3, dtype=torch.float16).eval()
    theirs.out_proj.weight.requires_grad_(False)
    ours = MultiHeadAttention.from_torch(theirs)
    assert not ours.training
    assert not ours.w_o.requires_grad
    assert ours.w_q.requires_grad
    assert ours.w_q.dtype == torch.float16
    assert repr(ours) == "MultiHeadAttention(d_model=12, num_heads=3, dropout=0.3, batch_first=False)"
    before = theirs.in_proj_weight.clone()
    with torch.no_grad():
        ours.w_q.zero_()
    assert torch.equal(theirs.in_proj_weight, before)
    assert not MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, add_zero_attn=True)).sink.requires_grad


@pytest.mark.parametrize(
    ("theirs", "error", "message"),
    [
        (lambda: nn.Linear(3, 3), ArgumentTypeError, r"attention must be a torch\.nn\.MultiheadAttention, got Linear\. Build a MultiHeadAttention instead\."),
        (
            lambda: nn.MultiheadAttention(12, 3, add_bias_kv=True),
            ArgumentError,
            r"add_bias_kv must be False, got True\. A learned key and value that belong to no token are not supported\.",
        ),
        (
            lambda: nn.MultiheadAttention(12, 3, kdim=5, vdim=7),
            ArgumentError,
            r"vdim must equal kdim, got 7 and 5\. Keys and values are read from one context\.",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused(theirs, error, message, plain):
    with pytest.raises(error, match=message):
        MultiHeadAttention.from_torch(theirs())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_kv_heads": 3}, ArgumentError, r"num_kv_heads must divide num_heads, got 3 and 8\. Choose 1, 2, 4 or 8\."),
        ({"d_model": 20}, ArgumentError, r"num_heads must divide d_model, got 8 and 20\. Choose 1, 2, 4, 5, 10 or 20, or give head_dim\."),
        ({"num_heads": 0}, ArgumentError, r"num_heads must be at least 1, got 0\. Pass a positive number\."),
        ({"head_dim": 2.0}, ArgumentTypeError, r"head_dim must be a whole number, got 2\.0\. Pass an int\."),
        ({"d_model": True}, ArgumentTypeError, r"d_model must be a whole number, got True\. Pass an int\."),
        ({"bias": "q"}, ArgumentError, r"bias must be True, False or 'qkv', got 'q'\. With 'qkv' the output has none\."),
        ({"bias": 1}, ArgumentError, r"bias must be True, False or 'qkv', got 1\."),
        ({"position": "rotary"}, ArgumentTypeError, r"position must be a Rotary, an Alibi or RelativeBuckets, got 'rotary'\. Make one: hw\.Rotary\(\)\."),
        ({"dropout": 1.5}, ArgumentError, r"dropout must lie between 0 and 1, got 1\.5\."),
        ({"dropout": "x"}, ArgumentTypeError, r"dropout must be a number, got 'x'\."),
        ({"dropout": True}, ArgumentTypeError, r"dropout must be a number, got True\."),
        ({"sink": 3}, ArgumentTypeError, r"sink must be True or False, got 3\."),
        ({"batch_first": None}, ArgumentTypeError, r"batch_first must be True or False, got None\."),
        ({"dtype": torch.int64}, ArgumentError, r"dtype must be a floating-point dtype, got torch\.int64\."),
        ({"dtype": "float32"}, ArgumentTypeError, r"dtype must be a torch\.dtype, got 'float32'\."),
        ({"device": "nowhere"}, ArgumentError, r"device must be one that torch knows, got 'nowhere'\."),
        ({"softcap": -1.0}, ArgumentError, r"softcap must be positive, got -1\.0\. Leave it out for no cap\."),
        ({"scale": float("inf")}, ArgumentError, r"scale must be finite, got inf\. Pass a finite number\."),
        ({"causal": 1}, ArgumentTypeError, r"causal must be True or False, got 1\."),
        ({"window": (1, 2, 3)}, ArgumentError, r"window must be an int or a pair \(left, right\), got \(1, 2, 3\)\."),
        ({"head_dim": 3, "position": Rotary()}, ShapeError, r"width must be even and at most that of a head, got 3 and 3\."),
        ({"position": Alibi((1.0,))}, ShapeError, r"slopes must have one number for each of 8 heads, got 1\."),
        ({"position": RelativeBuckets(torch.zeros(8, 3))}, ShapeError, r"table must have one column for each of 8 heads, got \[8, 3\]\."),
    ],
)
def test_arguments_that_do_not_fit_are_refused_when_the_module_is_made(arguments, error, message, plain):
    with pytest.raises(error, match=message):
        MultiHeadAttention(**{"d_model": 16, "num_heads": 8, **arguments})


def test_input_of_another_width_is_refused(plain):
    with pytest.raises(ShapeError, match=r"x must be \[batch, length, 16\], got \[2, 3, 15\]\. Add the missing axes, or check the width\."):
        MultiHeadAttention(16, 4)(torch.zeros(2, 3, 15))
    with pytest.raises(ArgumentTypeError, match=r"x must be a torch\.Tensor, got NoneType\."):
        MultiHeadAttention(16, 4, batch_first=False)(None)


def test_the_state_has_the_names_of_the_alphabet_and_goes_round():
    options = {"num_kv_heads": 2, "head_dim": 6, "value_dim": 5, "context_dim": 9, "sink": True, "position": RelativeBuckets(torch.zeros(8, 4))}
    module = filled(MultiHeadAttention(16, 4, **options))
    state = module.state_dict()
    assert {name: list(tensor.shape) for name, tensor in state.items()} == {
        "w_q": [16, 4, 6],
        "w_k": [9, 2, 6],
        "w_v": [9, 2, 5],
        "w_o": [4, 5, 16],
        "b_q": [4, 6],
        "b_k": [2, 6],
        "b_v": [2, 5],
        "b_o": [16],
        "sink": [4],
        "buckets": [8, 4],
    }
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    other = MultiHeadAttention(16, 4, **options)
    other.load_state_dict(torch.load(file))
    x, context = torch.randn(2, 3, 16), torch.randn(2, 7, 9)
    for twin in (other, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x, context), module(x, context))
    assert list(MultiHeadAttention(16, 4, bias=False).state_dict()) == ["w_q", "w_k", "w_v", "w_o"]
    assert list(MultiHeadAttention(16, 4, bias="qkv").state_dict()) == ["w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v"]


def test_a_copy_learns_a_table_of_its_own():
    module = MultiHeadAttention(16, 4, position=RelativeBuckets(normal(8, 4, dtype=torch.float32)))
    twin = copy.deepcopy(module)
    x = torch.randn(2, 5, 16)
    before = module(x)
    with torch.no_grad():
        twin.buckets.mul_(-3)
    assert torch.equal(module(x), before)
    assert not torch.allclose(twin(x), before)
    assert module.double()(x.double()).dtype == torch.float64
    module(x.double()).sum().backward()
    assert module.buckets.grad.abs().amax() > 0


def test_parameters_may_be_put_in_place_of_its_own():
    module = MultiHeadAttention(16, 4, sink=True, position=RelativeBuckets(normal(8, 4, dtype=torch.float32)))
    x, other = torch.randn(2, 5, 16), filled(copy.deepcopy(module))
    for name, parameter in other.named_parameters():
        swapped = torch.func.functional_call(module, {name: parameter}, (x,))
        assert not torch.allclose(swapped, module(x)), name
    assert torch.equal(torch.func.functional_call(module, dict(other.named_parameters()), (x,)), other(x))


def test_the_maps_start_in_the_range_of_glorot():
    module = MultiHeadAttention(60, 4, 2, 15, value_dim=10)
    for name, joined in {"w_q": 120, "w_k": 90, "w_v": 80, "w_o": 100}.items():
        limit = (6 / joined) ** 0.5
        largest = float(getattr(module, name).detach().abs().max())
        assert 0.95 * limit < largest <= limit, name
    assert module.b_q.eq(0).all()
    assert module.b_o.eq(0).all()
    before = module.w_q.detach().clone()
    module.reset_parameters()
    assert not torch.equal(before, module.w_q)


def test_what_a_module_says_of_itself_makes_another_like_it():
    assert repr(MultiHeadAttention(16, 4)) == "MultiHeadAttention(d_model=16, num_heads=4)"
    options = {
        "num_kv_heads": 2,
        "head_dim": 6,
        "value_dim": 5,
        "context_dim": 9,
        "bias": "qkv",
        "causal": True,
        "window": (3, 0),
        "softcap": 30.0,
        "scale": 0.2,
        "dropout": 0.1,
        "sink": True,
        "position": Rotary(width=4),
        "batch_first": False,
    }
    module = MultiHeadAttention(16, 4, **options)
    assert repr(module) == (
        "MultiHeadAttention(d_model=16, num_heads=4, num_kv_heads=2, head_dim=6, value_dim=5, context_dim=9, bias='qkv', causal=True, window=(3, 0), "
        "softcap=30.0, scale=0.2, dropout=0.1, sink=True, position=Rotary(base=10000.0, width=4, pairing='halves'), batch_first=False)"
    )
    assert repr(eval(repr(module), {"MultiHeadAttention": MultiHeadAttention, "Rotary": Rotary})) == repr(module)


def test_dropout_is_for_training_only():
    module = filled(MultiHeadAttention(M, H, G, D, dropout=0.4, dtype=torch.float64))
    calm = MultiHeadAttention(M, H, G, D, dtype=torch.float64)
    calm.load_state_dict(module.state_dict())
    x = normal(B, S, M)
    module.eval()
    assert torch.equal(module(x), calm(x))
    assert module.trace(x).dropout_mask is None
    module.train()
    torch.manual_seed(1)
    first = module(x)
    assert not torch.equal(first, module(x))
    torch.manual_seed(1)
    path = module.trace(x)
    assert torch.equal(path.out, first)
    assert set(path.dropout_mask.unique().tolist()) == {0.0, 1 / 0.6}


@pytest.mark.parametrize("position", [None, Rotary(), Alibi(), RelativeBuckets(normal(8, 4, dtype=torch.float32))])
def test_decoding_token_by_token_is_the_whole_text(position):
    module = filled(MultiHeadAttention(16, 4, 2, causal=True, sink=True, position=position)).double()
    x, past, outs = normal(B, S, 16), None, []
    for token in x.split(1, 1):
        passed = module.decode(token, past)
        past = passed.cache
        outs.append(passed.out)
    agree(torch.cat(outs, 1), module(x), 2**-52 * 4096 * float(module(x).detach().abs().max()))


def test_left_padding_in_a_batch_is_the_text_alone():
    """Positions only count differences, so a text that starts later is the same text, with its padding hidden."""
    module = filled(MultiHeadAttention(16, 4, 2, causal=True, position=Rotary())).double()
    text = normal(1, 5, 16)
    padded = torch.cat([torch.full((1, 2, 16), torch.nan, dtype=torch.float64), text], 1)
    mask = torch.tensor([False] * 2 + [True] * 5)
    agree(module(padded, mask=mask)[:, 2:], module(text), 2**-52 * 4096 * float(module(text).detach().abs().max()))


def test_it_learns_to_copy_the_token_before():
    """A task that attention alone can do: look back by one, and say what is there."""
    torch.manual_seed(0)
    tokens, length, width = 5, 7, 12
    module = MultiHeadAttention(width, 3, 1, causal=True, dropout=0.05)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
    place = torch.eye(length)

    def batch():
        token = torch.randint(0, tokens, (32, length))
        return torch.cat([nn.functional.one_hot(token, tokens).float(), place.expand(32, -1, -1)], -1), token

    losses = []
    for _ in range(200):
        x, token = batch()
        loss = nn.functional.cross_entropy(4 * module(x)[:, 1:, :tokens].flatten(0, 1), token[:, :-1].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    x, token = batch()
    module.eval()
    right = (module(x)[:, 1:, :tokens].argmax(-1) == token[:, :-1]).float().mean()
    assert losses[0] > 1.5
    assert losses[-1] < 0.5 * losses[0]
    assert right > 0.95
    previous = module.trace(x).weights.diagonal(-1, 2, 3).mean((0, 2))
    assert previous.max() > 0.5, "some head looks at the token before"


def test_autocast_lowers_the_precision_of_the_path():
    module = filled(MultiHeadAttention(16, 4, causal=True))
    x = torch.randn(2, 5, 16)
    with torch.autocast("cpu", torch.bfloat16):
        low = module(x)
    agree(low, module(x).detach(), 2**-8 * 32 * float(module(x).detach().abs().max()))


def test_forward_is_the_layers_own():
    module = filled(MultiHeadAttention(16, 4, 2, causal=True))
    x = torch.randn(2, 5, 16)
    assert torch.equal(module(x), forward(x, module.params, module.config).out)


def test_old_names_of_attributes_still_work_with_a_warning():
    module = MultiHeadAttention(M, H, G, D, dropout=0.4)
    path = module.trace(torch.ones(1, 3, M))
    for owner, old, new in ((module, "learned", "params"), (module, "rules", "config"), (path, "seen", "visible"), (path, "kept", "dropout_mask")):
        with pytest.warns(DeprecationWarning, match=rf"\.{old} is deprecated .* Use {new}"):
            got = getattr(owner, old)
        new_value = getattr(owner, new)
        assert got is new_value or repr(got) == repr(new_value)

"""`attend` itself: what it refuses and says, whom it hands the call to, edges of tiles, memory, and what comes back."""

import ast
import inspect
import re
from math import prod
from unittest.mock import patch

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headwise.attention import attend as module_of_attend
from headwise.attention.attend import attend, compute, make_call, statistic_names
from headwise.attention.call import Attended, Call, Kernel
from headwise.attention.weights import weights
from headwise.errors import ArgumentError, ArgumentTypeError, BackendError, HeadwiseError, ShapeError
from tests.attention.backends import every_backend, judged_backend
from tests.attention.problem import EVERY, Problem, agree, gradients, normal
from tests.attention.rounding import allowed

Q, K, V = normal(2, 4, 3, 5), normal(2, 2, 7, 5, seed=1), normal(2, 2, 7, 6, seed=2)
meta = torch.empty(2, 2, 7, 5, device="meta", dtype=torch.float64)
whole = torch.ones(2, 7, dtype=torch.long)

# --- what is refused: the arguments that differ from a right call, the kind of error, its text in full
REFUSED = [
    ({"query": [1.0]}, ArgumentTypeError, "query must be a torch.Tensor, got list. Convert it with torch.as_tensor."),
    ({"key": K[0]}, ShapeError, "key must have 4 axes [batch, heads, length, width], got [2, 7, 5]. Add the missing ones."),
    ({"value": V.long()}, ArgumentTypeError, "value must be float16, bfloat16, float32 or float64, got torch.int64. Convert it first."),
    ({"query": Q.to(torch.complex64)}, ArgumentTypeError, "query must be float16, bfloat16, float32 or float64, got torch.complex64. Convert it first."),
    ({"key": K.float()}, ArgumentTypeError, "key must have the dtype of query, got torch.float32 and torch.float64. Convert one of them."),
    ({"key": meta}, ArgumentError, "key must be on the device of query, got meta and cpu. Move one of them."),
    ({"query": Q[:1]}, ShapeError, "batch of query, key and value must be equal, got 1, 2 and 2. Expand the smaller."),
    ({"value": V[:1]}, ShapeError, "batch of query, key and value must be equal, got 2, 2 and 1. Expand the smaller."),
    ({"key": K[..., :4]}, ShapeError, "width of key must be that of query, got 4 and 5. Check which axis is which."),
    ({"value": V[:, :, :6]}, ShapeError, "value must have the heads and length of key, got [2, 6] and [2, 7]. Check which axis is which."),
    ({"value": V[:, :1]}, ShapeError, "value must have the heads and length of key, got [1, 7] and [2, 7]. Check which axis is which."),
    ({"query": Q[:, :3]}, ShapeError, "heads of key must divide heads of query, got 2 and 3. Choose one of [1, 3]."),
    ({"key": K[:, :0], "value": V[:, :0]}, ShapeError, "heads of key must divide heads of query, got 0 and 4. Choose one of [1, 2, 4]."),
    ({"query": Q[..., :0], "key": K[..., :0]}, ArgumentError, "scale must be given when the width of query is 0, got None. Pass scale=1.0."),
    ({"scale": "0.5"}, ArgumentTypeError, "scale must be a number, got str. Pass a float."),
    ({"scale": torch.ones(2)}, ArgumentTypeError, "scale must be a number, got Tensor. Pass a float."),
    ({"scale": float("nan")}, ArgumentError, "scale must be finite, got nan. Pass a finite number."),
    (
        {"scale": torch.ones((), requires_grad=True)},
        ArgumentTypeError,
        "scale must be a number, got a tensor that has a gradient, which would be lost. Multiply the query by it instead.",
    ),
    ({"softcap": float("inf")}, ArgumentError, "softcap must be finite, got inf. Pass a finite number."),
    ({"softcap": 0.0}, ArgumentError, "softcap must be positive, got 0.0. Leave it out for no cap."),
    ({"softcap": -2}, ArgumentError, "softcap must be positive, got -2.0. Leave it out for no cap."),
    ({"causal": 1}, ArgumentTypeError, "causal must be True or False, got 1. Masks go to `mask`, distances to `window`."),
    ({"window": 2.0}, ArgumentTypeError, "window must be a whole number of tokens, got 2.0. Pass an int."),
    ({"window": True}, ArgumentTypeError, "window must be a whole number of tokens, got True. Pass an int."),
    ({"window": (1, "2")}, ArgumentTypeError, "window must be a whole number of tokens, got '2'. Pass an int."),
    ({"window": (1, 2, 3)}, ArgumentError, "window must be an int or a pair (left, right), got (1, 2, 3). None means no limit."),
    (
        {"query_offset": 1.5},
        ArgumentTypeError,
        "query_offset must be whole numbers of tokens, got torch.float32. Pass an int, or one int for each batch row.",
    ),
    (
        {"query_offset": True},
        ArgumentTypeError,
        "query_offset must be whole numbers of tokens, got torch.bool. Pass an int, or one int for each batch row.",
    ),
    ({"query_offset": "3"}, ArgumentTypeError, "query_offset must be whole numbers of tokens, got '3'. Pass an int, or one int for each batch row."),
    ({"query_offset": [1, 2, 3]}, ShapeError, "query_offset must be one number or one for each of 2 batch rows, got shape [3]. Reshape it."),
    ({"query_offset": 2**61}, ArgumentError, f"query_offset must lie within 2^60 tokens, got {2**61}. It is the position of the first query."),
    ({"mask": [[True]]}, ArgumentTypeError, "mask must be a torch.Tensor, got list. Convert it with torch.as_tensor."),
    (
        {"mask": torch.ones(3, 7)},
        ArgumentTypeError,
        "mask must be bool (True = visible), got torch.float32. Numbers that are added to the scores go to `bias`.",
    ),
    ({"bias": torch.ones(3, 7, dtype=torch.bool)}, ArgumentTypeError, "bias must be float, got torch.bool. True/False masks go to `mask`."),
    ({"bias": torch.zeros(7, device="meta")}, ArgumentError, "bias must be on the device of query, got meta and cpu. Move it."),
    (
        {"mask": torch.ones(2, 7, dtype=torch.bool)},
        ShapeError,
        "mask must broadcast to [batch, heads, queries, keys] = [2, 4, 3, 7], got [2, 7]. Insert axes of length 1.",
    ),
    ({"bias": torch.ones(1, 2, 4, 3, 7)}, ShapeError, "bias must broadcast to [batch, heads, queries, keys] = [2, 4, 3, 7], got [1, 2, 4, 3, 7]."),
    ({"sink": 1.0}, ArgumentTypeError, "sink must be a float tensor, got float. Pass one logit a head."),
    ({"sink": torch.ones(4, dtype=torch.int32)}, ArgumentTypeError, "sink must be a float tensor, got torch.int32. Pass one logit a head."),
    ({"sink": torch.ones(2)}, ShapeError, "sink must have one logit for each of 4 heads, got shape [2]. Pass shape [4]."),
    ({"sink": torch.ones(4, device="meta")}, ArgumentError, "sink must be on the device of query, got meta and cpu. Move it."),
    ({"statistics": "segment"}, ArgumentError, "segments must be given for the statistic 'segment', got None. Pass one label a key, shape [B, S]."),
    ({"statistics": "all", "segments": whole}, ArgumentError, "segments must come with a statistic that reads them, got none in statistics. Add 'segment'."),
    ({"statistics": "segment", "segments": whole.float()}, ArgumentTypeError, "segments must be a tensor of ints, got torch.float32. Number the spans from 0."),
    ({"statistics": "segment", "segments": [[0] * 7] * 2}, ArgumentTypeError, "segments must be a tensor of ints, got list. Number the spans from 0."),
    ({"statistics": "segment", "segments": whole[:, :6]}, ShapeError, "segments must have one label a key, [B, S] = [2, 7], got [2, 6]. Reshape it."),
    ({"statistics": ["entropy", "entropie"]}, ArgumentError, "statistics must be 'all' or names among ['distance', 'entropy', "),
    ({"statistics": 3}, ArgumentTypeError, "statistics must be 'all' or names, got 3. Pass a list of names."),
    ({"backend": "flash"}, ArgumentError, "backend must be one of ['native', 'reference', 'stream'], got 'flash'. Leave it out for the fastest."),
]


def run(**changed) -> Attended:
    arguments = {"query": Q, "key": K, "value": V, **changed}
    return attend(arguments.pop("query"), arguments.pop("key"), arguments.pop("value"), **arguments)


@pytest.mark.parametrize(("changed", "kind", "text"), REFUSED, ids=[text[:60] for _, _, text in REFUSED])
@pytest.mark.usefixtures("plain")
def test_what_cannot_be_honoured_is_said(changed, kind, text):
    with pytest.raises(kind, match=re.escape(text)) as said:
        run(**changed)
    assert type(said.value) is kind
    assert "\n" not in str(said.value)


def refusing(why):
    """A kernel that refuses for this reason, or honours everything when it is None."""
    return Kernel(attend=lambda *call: why, refusal=lambda *call: why, preference=1)


@pytest.mark.usefixtures("plain")
def test_a_backend_that_cannot_says_why():
    with (
        patch.object(module_of_attend, "entries", lambda package: {"slow": refusing("it is Sunday")}),
        pytest.raises(BackendError, match=r"backend 'slow' does not support this call: it is Sunday\. Leave backend out, or choose another\."),
    ):
        compute(Q, K, V, make_call(Q, K), backend="slow")


@pytest.mark.usefixtures("plain")
def test_no_backend_at_all():
    with (
        patch.object(module_of_attend, "entries", lambda package: {"slow": refusing("it is Sunday")}),
        pytest.raises(BackendError, match=r"no backend supports this call\. `headwise doctor` says which ones work here\."),
    ):
        compute(Q, K, V, make_call(Q, K))


@pytest.mark.usefixtures("plain")
def test_every_refusal_has_a_test():
    """Each `raise` of the file is met by one of the calls above."""
    met = set()
    for changed, _, _ in REFUSED:
        try:
            run(**changed)
        except HeadwiseError as error:
            frame = error.__traceback__
            while frame.tb_next:
                frame = frame.tb_next
            met.add(frame.tb_lineno)
    tree = ast.parse(inspect.getsource(module_of_attend))
    raised = {node.lineno: ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Raise) and "BackendError" not in ast.unparse(node)}
    assert not [text for line, text in raised.items() if line not in met]


# --- who computes


def test_the_most_preferred_backend_that_does_not_refuse_is_taken():
    def kernel(preference, refuses=None):
        said = Attended(Q @ Q.mT @ Q + preference, Q[..., 0])
        return Kernel(attend=lambda *call: said, refusal=lambda *call: refuses, preference=preference)

    kernels = {"a": kernel(1), "b": kernel(3), "c": kernel(5, "too old"), "d": kernel(2)}
    with patch.object(module_of_attend, "entries", lambda package: kernels):
        assert compute(Q, Q, Q, make_call(Q, Q)) is kernels["b"].attend()
        assert compute(Q, Q, Q, make_call(Q, Q), backend="a") is kernels["a"].attend()


def test_the_fastest_is_one_of_those_that_are_judged():
    found, right = run(causal=True, statistics="all"), run(causal=True, statistics="all", backend="reference")
    torch.testing.assert_close(found.output, right.output)
    assert list(found.statistics) == list(right.statistics)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ((), ()),
        ("entropy", ("entropy",)),
        (["self", "first", "self"], ("self", "first")),
        ("all", ("distance", "entropy", "first", "max_weight", "participation", "peak", "previous", "self", "sink")),
        (
            ("received", "all", "entropy"),
            ("received", "distance", "entropy", "first", "max_weight", "participation", "peak", "previous", "self", "sink"),
        ),
        ({"peak"}, ("peak",)),
    ],
)
def test_statistics_by_name(asked, names):
    assert statistic_names(asked) == names
    assert tuple(run(statistics=asked).statistics) == names


# --- what comes back


@every_backend
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_output_is_in_the_dtype_of_the_query_and_numbers_in_float32_or_better(backend, dtype):
    found = run(query=Q.to(dtype), key=K.to(dtype), value=V.to(dtype), statistics="all", backend=backend)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert found.output.dtype == dtype
    assert found.lse.dtype == wide
    assert {name: x.dtype for name, x in found.statistics.items()} == {name: torch.int64 if name == "peak" else wide for name in found.statistics}
    assert list(found.output.shape) == [2, 4, 3, 6]
    assert all(list(x.shape) == [2, 4, 3] for x in (found.lse, *found.statistics.values()))


@every_backend
def test_output_and_lse_have_gradients_and_statistics_have_none(backend):
    problem = Problem(Q, K, V, {"segments": whole, "sink": normal(4, seed=3), "bias": normal(3, 7, seed=4)}).leaves()
    found = problem.run(backend, EVERY)
    assert found.output.requires_grad
    assert found.lse.requires_grad
    assert not any(x.requires_grad for x in found.statistics.values())
    with torch.no_grad():
        found = problem.run(backend, EVERY)
    assert not found.output.requires_grad
    assert not found.lse.requires_grad


@every_backend
def test_what_is_given_is_left_as_it_was(backend):
    given = {
        "query": Q.clone(),
        "key": K.clone(),
        "value": V.clone(),
        "bias": normal(4, 3, 7, seed=4),
        "mask": normal(3, 7, seed=5) > 0,
        "sink": normal(4, seed=3),
        "query_offset": torch.tensor([4, 2]),
    }
    kept = {name: x.clone() for name, x in given.items()}
    run(**given, softcap=2.0, causal=True, statistics="all", backend=backend)
    assert all(torch.equal(given[name], kept[name]) for name in given)


@every_backend
def test_the_same_call_gives_the_same_bits(backend):
    first, second = (run(causal=True, window=4, statistics="all", backend=backend) for _ in range(2))
    assert torch.equal(first.output, second.output)
    assert all(torch.equal(first.statistics[name], second.statistics[name]) for name in first.statistics if name != "peak")


@every_backend
def test_gradients_flow_when_only_one_tensor_learns(backend):
    for name in ("query", "key", "value", "bias", "sink"):
        problem = Problem(Q, K, V, {"sink": normal(4, seed=3), "bias": normal(3, 7, seed=4)})
        leaf = problem.params()[name].clone().requires_grad_()
        found = problem.having(**{name: leaf}).run(backend)
        (slope,) = torch.autograd.grad(found.output.sum() + 2 * found.lse.sum(), leaf)
        right = gradients(problem, "reference", torch.ones_like(found.output), 2 * torch.ones_like(found.lse))[name]
        torch.testing.assert_close(slope, right)


@every_backend
def test_gradients_of_lse_alone_and_of_output_alone(backend):
    problem = Problem(Q, K, V, {"sink": normal(4, seed=3)}).leaves()
    for pick in ("output", "lse"):
        found, right = (torch.autograd.grad(getattr(problem.run(name), pick).sum(), [problem.query, problem.key]) for name in (backend, "reference"))
        torch.testing.assert_close(found, right)


@every_backend
def test_windows_and_offsets_as_far_as_numbers_go(backend):
    """`sys.maxsize` for no limit must not wrap around."""
    free = run(backend=backend).output
    for window in (2**63 - 1, (2**63 - 1, 2**63 - 1), (10**30, None), (None, 10**30)):
        assert torch.equal(run(window=window, backend=backend).output, free)
        assert torch.equal(run(window=window, query_offset=2**59, backend=backend).output, free)
    assert (run(window=-(2**63), backend=backend).output == 0).all()
    assert torch.equal(run(causal=True, query_offset=2**60, backend=backend).output, free)
    assert (run(causal=True, query_offset=-(2**60), backend=backend).output == 0).all()


@every_backend
def test_offsets_of_each_row_come_as_any_list_of_ints(backend):
    right = run(causal=True, query_offset=torch.tensor([1, 4]), backend=backend).output
    for given in ([1, 4], (1, 4), torch.tensor([1, 4], dtype=torch.int32)):
        assert torch.equal(run(causal=True, query_offset=given, backend=backend).output, right)
    assert torch.equal(right[0], run(causal=True, query_offset=1, backend=backend).output[0])
    assert torch.equal(right[1], run(causal=True, query_offset=4, backend=backend).output[1])
    assert torch.equal(run(causal=True, query_offset=[3], backend=backend).output, run(causal=True, query_offset=3, backend=backend).output)
    assert list(run(query=Q[:0], key=K[:0], value=V[:0], query_offset=[], backend=backend).output.shape) == [0, 4, 3, 6]


# --- edges of tiles

EDGES = [(1, 513), (63, 64), (64, 63), (65, 127), (129, 1), (257, 513), (640, 640), (300, 1200)]
RULES = {
    "all": {},
    "causal": {"causal": True},
    "band": {"causal": True, "window": 10},
    "far band": {"window": (70, -64)},
    "keys ahead": {"window": (0, None), "softcap": 3.0},
    "late keys": {"mask": "late", "sink": "two"},
    "stripes": {"mask": "stripes", "causal": True},
    "sparse bias": {"bias": "sparse", "query_offset": [3, 250]},
}


def at_the_edge(queries: int, keys: int, rules: dict) -> Problem:
    """Two texts, two heads of one key head."""
    i, j = torch.arange(queries)[:, None], torch.arange(keys)
    bias = normal(1, 2, queries, keys, seed=6, dtype=torch.float32)
    planes = {
        "late": (j >= keys // 2)[None],
        "stripes": (j // 64 + i // 64) % 3 == 0,
        "sparse": bias.masked_fill(bias < 1.2, -torch.inf),
        "two": torch.tensor([0.5, -1.0]),
    }
    shapes = (2, 2, queries, 4), (2, 1, keys, 4), (2, 1, keys, 3)
    segments = (j // 100).expand(2, keys)
    return Problem(
        *(normal(*shape, seed=seed, dtype=torch.float32) for seed, shape in enumerate(shapes)),
        {"segments": segments, **{name: planes[value] if isinstance(value, str) else value for name, value in rules.items()}},
    )


@judged_backend
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize(("queries", "keys"), EDGES, ids=lambda n: str(n))
def test_lengths_around_tiles(backend, queries, keys, rules):
    problem = at_the_edge(queries, keys, rules)
    flows = normal(2, 2, queries, 3, seed=8, dtype=torch.float32), normal(2, 2, queries, seed=9, dtype=torch.float32)
    found, right, fine = problem.run(backend, EVERY), problem.double().run("reference", EVERY), allowed(problem, *flows)
    agree(found.output, right.output, fine.output, "output")
    agree(found.lse, right.lse, fine.lse, "lse")
    for name, number in found.statistics.items():
        if name != "peak":
            agree(number, right.statistics[name], fine.statistics[name], name)
            agree(number, right.statistics[name], 1e-5 * (1 + right.statistics[name].abs()), f"{name} by the contract")
    assert (found.statistics["peak"] == right.statistics["peak"]).double().mean() > 0.99
    slopes, true = gradients(problem, backend, *flows), gradients(problem.double(), "reference", *flows)
    for name, slope in slopes.items():
        agree(slope, true[name], fine.gradients[name], f"d {name}")


# --- memory


class Largest(TorchDispatchMode):
    """The most numbers that any tensor made under it holds; views of what was there before count too."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.numel = max([self.numel, *(x.numel() for x in tree_leaves(made) if isinstance(x, torch.Tensor))])
        return made


@judged_backend
@pytest.mark.parametrize("rules", [{}, {"causal": True, "window": 1000}, {"mask": torch.arange(4096) % 7 != 3, "sink": torch.ones(1)}], ids=str)
def test_no_tensor_is_as_large_as_queries_times_keys(backend, rules):
    q, k, v = (normal(1, 1, 4096, 8, seed=seed, dtype=torch.float32).requires_grad_() for seed in range(3))
    segments = (torch.arange(4096) // 2000)[None]
    with Largest() as largest:
        found = attend(q, k, v, **rules, statistics=EVERY, segments=segments, backend=backend)
        (found.output.sum() + found.lse.sum()).backward()
    assert prod(q.shape) <= largest.numel < 4096 * 4096 / 8
    assert q.grad.isfinite().all()


def test_the_measure_of_memory_sees_the_reference():
    q = normal(1, 1, 512, 8)
    with Largest() as largest:
        attend(q, q, q, backend="reference")
    assert largest.numel >= 512 * 512


@judged_backend
def test_autocast_rounds_nothing(backend):
    """Not what is computed here, nor the gradients of it: attention is accumulated in float32 whatever surrounds it."""
    tensors = [normal(1, 2, 5, 4, seed=seed, dtype=torch.float32) for seed in range(3)]
    plain, cast = ([x.clone().requires_grad_() for x in tensors] for _ in range(2))
    right = attend(*plain, sink=torch.ones(2), statistics=EVERY, segments=torch.zeros(1, 5, dtype=torch.int64), backend=backend)
    (right.output.sum() + right.lse.sum()).backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = attend(*cast, sink=torch.ones(2), statistics=EVERY, segments=torch.zeros(1, 5, dtype=torch.int64), backend=backend)
        (found.output.sum() + found.lse.sum()).backward()
        again = weights(cast[0], cast[1], found.lse, Call(scale=0.5, offset=torch.zeros(1, dtype=torch.int64), sink=torch.ones(2)), slice(0, 5), slice(0, 5))
    assert torch.equal(found.output, right.output) and torch.equal(found.lse, right.lse)
    for name, number in right.statistics.items():
        torch.testing.assert_close(found.statistics[name], number, rtol=0, atol=0, equal_nan=True)
    assert all(torch.equal(x.grad, y.grad) for x, y in zip(cast, plain, strict=True))
    torch.testing.assert_close(again.sum(-1) + found.statistics["sink"], torch.ones(1, 2, 5))


@judged_backend
def test_a_sign_that_is_yet_to_be_turned_counts(backend):
    """The imaginary part of a conjugate is a view whose memory holds the other sign."""
    query, value = (normal(1, 2, 5, 4, seed=seed, dtype=torch.float32) for seed in range(2))
    key = torch.view_as_complex(normal(1, 2, 5, 4, 2, seed=2, dtype=torch.float32)).conj().imag
    assert key.is_neg()
    found, right = (attend(query, k, value, backend=backend) for k in (key, key.resolve_neg()))
    assert torch.equal(found.output, right.output)
    assert not torch.equal(found.output, attend(query, -key, value, backend=backend).output)

"""For any problem: every kernel gives what the reference gives, the reference what plain Python gives, and what must not matter doesn't."""

from contextlib import contextmanager
from math import prod
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headwise.attention import blocking as blocks
from tests.attention import oracle
from tests.attention.backends import every_backend, judged_backend
from tests.attention.problem import EVERY, Problem, agree, gradients, normal
from tests.attention.rounding import Allowed, allowed
from tests.attention.strategies import problems, seeds
from tests.typechecking import unchecked

ROW_STATISTICS = ("entropy", "max_weight", "participation", "distance", "first", "previous", "self", "sink", "segment")
tiles = st.sampled_from([None, None, (1, 1), (24, 3), (160, 16)])  # scores in a tile, query rows in it; None = as shipped
more = settings(max_examples=settings.default.max_examples * 5 // 2)
small = problems(dtypes=(torch.float32, torch.float64), lengths=(5, 7, 3, 11, 2, 1, 17), plain=True)


@contextmanager
def cut(tile, problem):
    """Smaller tiles than a computer would want, so that small problems have many; annotations, checked elsewhere, would take most of the time."""
    size, rows = (blocks.tile_size(torch.device("cpu")), blocks.MAX_ROWS) if tile is None else (max(tile[0], prod(problem.shape) // 50), tile[1])
    with patch.object(blocks, "tile_size", lambda device: size), patch.object(blocks, "MAX_ROWS", rows), unchecked():
        yield


def upstream(problem: Problem, seed: int):
    """What flows into output and lse from above."""
    d_output = normal(*problem.query.shape[:3], problem.value.shape[3], seed=seed, dtype=problem.query.dtype)
    return d_output, normal(*problem.query.shape[:3], seed=seed + 1, dtype=torch.float32)


def at_the_peaks(problem: Problem, *peaks):
    """The weight at each peak: of keys with nearly equal weights any will do. -1 stays."""
    keys = problem.key.shape[2]
    identity = torch.eye(keys, dtype=torch.float64).expand(*problem.key.shape[:2], keys, keys)
    weights = problem.double().having(value=identity).run("reference").output
    return [torch.where(peak < 0, -1.0, weights.gather(-1, peak.clamp(min=0)[..., None])[..., 0]) if keys else peak for peak in peaks]


def same(found, right, fine: Allowed, rows=..., factor: float = 1):
    """Output, lse and the statistics of some rows are equal up to rounding."""
    agree(found.output[rows], right.output[rows], factor * fine.output[rows], "output")
    agree(found.lse[rows], right.lse[rows], factor * fine.lse[rows], "lse")
    for name in ROW_STATISTICS:
        if name in found.statistics:
            agree(found.statistics[name][rows], right.statistics[name][rows], factor * fine.statistics[name][rows], name)


# --- every kernel is the reference


@judged_backend
@more
@given(problem=problems(), tile=tiles)
def test_values_are_those_of_the_reference(backend, problem, tile):
    right, fine = problem.double().run("reference", EVERY), allowed(problem)
    with cut(tile, problem):
        found = problem.run(backend, EVERY)
    assert found.output.dtype == problem.query.dtype
    assert found.lse.dtype == (torch.float64 if problem.query.dtype == torch.float64 else torch.float32)
    assert list(found.statistics) == list(right.statistics)
    same(found, right, fine)
    agree(found.statistics["received"], right.statistics["received"], fine.statistics["received"], "received")
    agree(*at_the_peaks(problem, found.statistics["peak"], right.statistics["peak"]), fine.statistics["peak"], "weight at the peak")
    for name, number in found.statistics.items():
        assert number.dtype == (torch.int64 if name == "peak" else found.lse.dtype), name


@judged_backend
@more
@given(problem=problems(), tile=tiles, seed=seeds)
def test_gradients_are_those_of_the_reference(backend, problem, tile, seed):
    flows = upstream(problem, seed)
    right, fine = gradients(problem.double(), "reference", *flows), allowed(problem, *flows)
    with cut(tile, problem):
        found = gradients(problem, backend, *flows)
    for name, slope in found.items():
        assert slope.dtype == problem.params()[name].dtype, name
        agree(slope, right[name], fine.gradients[name], f"d {name}")


# --- the reference is plain Python


@given(problem=problems(dtypes=(torch.float64, torch.float32), lengths=(3, 5, 7, 2, 1)))
def test_the_reference_gives_what_plain_python_gives(problem):
    found, right, fine = problem.double().run("reference", EVERY), problem.oracle(), allowed(problem.double())
    agree(found.output, torch.from_numpy(right.output.real), fine.output, "output")
    agree(found.lse, torch.from_numpy(right.lse.real), fine.lse, "lse")
    for name, number in oracle.statistics(right, problem.options["segments"].tolist()).items():
        number = torch.from_numpy(number)
        if name == "peak":
            agree(*at_the_peaks(problem, found.statistics[name], number.long()), fine.statistics[name], "weight at the peak")
        else:
            agree(found.statistics[name], number, fine.statistics[name], name)


@given(problem=problems(dtypes=(torch.float64,), lengths=(3, 2, 4, 1)), seed=seeds)
def test_the_gradients_of_the_reference_are_slopes(problem, seed):
    assume(prod(problem.shape) <= 100)
    d_output, d_lse = upstream(problem, seed)
    found, fine = gradients(problem, "reference", d_output, d_lse), allowed(problem, d_output, d_lse)
    (query, key, value), options = problem.arrays()
    inputs = {"query": query, "key": key, "value": value, **options}
    alive = problem.seen().any(-1).numpy() | ("sink" in options)

    def loss(name):
        def of(moved: np.ndarray) -> complex:
            answer = oracle.attention(**{**inputs, name: moved})
            return (answer.output * d_output.numpy()).sum() + (answer.lse[alive] * d_lse.double().numpy()[alive]).sum()

        return of

    for name, slope in found.items():
        agree(slope, torch.from_numpy(oracle.slopes(loss(name), inputs[name])), fine.gradients[name], f"d {name}")


# --- what is hidden cannot matter, what is not a number stays in its row

POISONS = (torch.nan, torch.inf, -torch.inf, 1e30)


@every_backend
@given(problem=small, tile=tiles, poison=st.sampled_from(POISONS), seed=seeds)
def test_what_no_row_sees_may_be_anything(backend, problem, tile, poison, seed):
    flows, groups = upstream(problem, seed), problem.key.shape[1]
    unseen = ~problem.seen().unflatten(1, (groups, -1)).any(3).any(2)[..., None]
    poisoned = problem.having(key=problem.key.masked_fill(unseen, poison), value=problem.value.masked_fill(unseen, poison))
    fine = allowed(problem, *flows)
    with cut(tile, problem):
        same(poisoned.run(backend, EVERY), problem.run(backend, EVERY), fine)
        found, right = gradients(poisoned, backend, *flows), gradients(problem, backend, *flows)
    for name in found:
        agree(found[name], right[name], fine.gradients[name], f"d {name}")
    for name in ("key", "value"):
        assert (found[name].masked_select(unseen) == 0).all(), f"d {name} of a key that no row sees"


@every_backend
@given(problem=small, tile=tiles, poison=st.sampled_from(POISONS), seed=seeds)
def test_a_bias_under_the_mask_may_be_anything(backend, problem, tile, poison, seed):
    flows = upstream(problem, seed)
    bias = problem.options["bias"].expand(problem.shape) if "bias" in problem.options else normal(*problem.shape, seed=seed, dtype=problem.query.dtype)
    problem = problem.having(bias=bias)
    hidden = ~problem.having(bias=None).seen()
    poisoned, fine = problem.having(bias=bias.masked_fill(hidden, poison)), allowed(problem, *flows)
    with cut(tile, problem):
        same(poisoned.run(backend, EVERY), problem.run(backend, EVERY), fine)
        found, right = gradients(poisoned, backend, *flows), gradients(problem, backend, *flows)
    for name in found:
        agree(found[name], right[name], fine.gradients[name], f"d {name}")
    assert (found["bias"].masked_select(hidden) == 0).all()


@every_backend
@pytest.mark.parametrize("where", ["key", "value"])
@given(problem=small, tile=tiles, poison=st.sampled_from(POISONS[:3]), seed=seeds, data=st.data())
def test_a_bad_key_spoils_the_rows_that_see_it_and_no_others(backend, where, problem, tile, poison, seed, data):
    """Rows that see it depend on it; the others keep value, statistics and gradients, and so do keys that only those see."""
    flows, groups = upstream(problem, seed), problem.key.shape[1]
    b, g, j = (data.draw(st.integers(0, n - 1)) for n in problem.key.shape[:3])
    x = getattr(problem, where).clone()
    x[b, g, j, 0] = poison
    seen = problem.seen()
    group = problem.shape[1] // groups
    spoiled = torch.zeros(problem.shape[:3], dtype=torch.bool)
    spoiled[b, g * group : (g + 1) * group] = seen[b, g * group : (g + 1) * group, :, j]
    poisoned, fine = problem.having(**{where: x}), allowed(problem, *flows)
    with cut(tile, problem):
        bad, good = poisoned.run(backend, EVERY), problem.run(backend, EVERY)
        found, right = gradients(poisoned, backend, *flows), gradients(problem, backend, *flows)
    same(bad, good, fine, ~spoiled)
    agree(found["query"][~spoiled], right["query"][~spoiled], fine.gradients["query"][~spoiled], "d query")
    clean = ~(seen & spoiled[..., None]).unflatten(1, (groups, group)).any(3).any(2)
    for name in ("key", "value"):
        agree(found[name][clean], right[name][clean], fine.gradients[name][clean], f"d {name}")
    if poison != poison:
        assert bad.output[spoiled][:, 0].isnan().all()
        if where == "key":
            assert bad.output[spoiled].isnan().all()
            assert bad.lse[spoiled].isnan().all()
            for name in ROW_STATISTICS:
                assert bad.statistics[name][spoiled].isnan().all(), name
            assert (bad.statistics["peak"][spoiled] == -1).all()
    if where == "value":
        agree(bad.lse, good.lse, fine.lse, "lse")
        agree(bad.output[..., 1:], good.output[..., 1:], fine.output[..., 1:], "other columns")


@every_backend
@given(problem=small, tile=tiles, poison=st.sampled_from(POISONS[:3]), seed=seeds, data=st.data())
def test_a_bad_query_spoils_its_own_row_alone(backend, problem, tile, poison, seed, data):
    flows = upstream(problem, seed)
    spoiled = torch.zeros(problem.shape[:3], dtype=torch.bool)
    spoiled[tuple(data.draw(st.integers(0, n - 1)) for n in problem.shape[:3])] = True
    poisoned = problem.having(query=problem.query.masked_fill(spoiled[..., None], poison))
    fine, dead = allowed(problem, *flows), ~problem.seen().any(-1)
    with cut(tile, problem):
        bad, good = poisoned.run(backend, EVERY), problem.run(backend, EVERY)
        found, right = gradients(poisoned, backend, *flows), gradients(problem, backend, *flows)
    same(bad, good, fine, ~spoiled | dead)
    agree(found["query"][~spoiled], right["query"][~spoiled], fine.gradients["query"][~spoiled], "d query")
    if poison != poison:
        assert bad.output[spoiled & ~dead].isnan().all()
        assert bad.lse[spoiled & ~dead].isnan().all()
        assert (bad.statistics["peak"][spoiled & ~dead] == -1).all()
    assert (found["query"][dead] == 0).all()


# --- what says the same gives the same


def as_mask(problem: Problem) -> Problem:
    """Every rule that hides written out as one mask."""
    return problem.having(causal=None, window=None, mask=problem.seen())


@every_backend
@given(problem=small, tile=tiles)
def test_rules_are_the_mask_that_they_describe(backend, problem, tile):
    with cut(tile, problem):
        same(as_mask(problem).run(backend, EVERY), problem.run(backend, EVERY), allowed(problem))


@every_backend
@given(problem=small, tile=tiles)
def test_an_open_mask_is_no_mask(backend, problem, tile):
    open_mask = torch.ones(1, 1, 1, problem.shape[3], dtype=torch.bool)
    with cut(tile, problem):
        same(problem.having(mask=open_mask).run(backend, EVERY), problem.having(mask=None).run(backend, EVERY), allowed(problem.having(mask=None)))


@every_backend
@given(problem=small, tile=tiles)
def test_a_mask_is_a_bias_of_minus_infinity(backend, problem, tile):
    mask = problem.seen()
    bias = torch.zeros(problem.shape, dtype=problem.query.dtype) + problem.options.get("bias", torch.zeros(())).to(problem.query.dtype)
    right, added = problem.having(bias=bias), as_mask(problem).having(mask=None, bias=bias.masked_fill(~mask, -torch.inf))
    with cut(tile, problem):
        same(added.run(backend, EVERY), right.run(backend, EVERY), allowed(right))


@every_backend
@given(problem=small, tile=tiles, seed=seeds)
def test_broadcast_is_expanded(backend, problem, tile, seed):
    flows = upstream(problem, seed)
    whole = {name: problem.options[name].expand(problem.shape).contiguous() for name in ("mask", "bias") if name in problem.options}
    expanded, fine = problem.having(**whole), allowed(problem, *flows)
    with cut(tile, problem):
        same(expanded.run(backend, EVERY), problem.run(backend, EVERY), fine)
        found, right = gradients(expanded, backend, *flows), gradients(problem, backend, *flows)
    if "bias" in problem.options:
        bias = problem.options["bias"]
        shape = (1,) * (4 - bias.dim()) + tuple(bias.shape)
        gathered, loose = (x.double().sum_to_size(shape).reshape(bias.shape) for x in (found["bias"], allowed(expanded, *flows).gradients["bias"]))
        agree(gathered, right["bias"], fine.gradients["bias"] + loose, "d bias")


@every_backend
@given(problem=small, tile=tiles, seed=seeds)
def test_keys_have_no_order(backend, problem, tile, seed):
    """Shuffled with their masks and biases, they give the same rows."""
    order = torch.randperm(problem.shape[3], generator=torch.Generator().manual_seed(seed))
    problem = as_mask(problem)
    moved = {name: problem.options[name].expand(problem.shape)[..., order] for name in ("mask", "bias") if name in problem.options}
    shuffled = problem.having(key=problem.key[:, :, order], value=problem.value[:, :, order], segments=problem.options["segments"][:, order], **moved)
    fine = allowed(problem)
    with cut(tile, problem):
        found, right = shuffled.run(backend, EVERY), problem.run(backend, EVERY)
    for name in ("entropy", "max_weight", "participation", "sink", "segment"):
        agree(found.statistics[name], right.statistics[name], fine.statistics[name], name)
    agree(found.output, right.output, fine.output, "output")
    agree(found.lse, right.lse, fine.lse, "lse")
    agree(found.statistics["received"], right.statistics["received"][..., order], fine.statistics["received"][..., order], "received")
    back = torch.where(found.statistics["peak"] < 0, -1, order[found.statistics["peak"].clamp(min=0)])
    agree(*at_the_peaks(problem, back, right.statistics["peak"]), fine.statistics["peak"], "weight at the peak")


@every_backend
@given(problem=small, tile=tiles, data=st.data())
def test_rows_in_two_calls_are_rows_in_one(backend, problem, tile, data):
    """The second call starts at a later offset: what a cache does."""
    queries, keys = problem.shape[2:]
    at = data.draw(st.integers(0, queries))
    offset = torch.as_tensor(problem.options.get("query_offset", keys - queries))
    parts = []
    with cut(tile, problem):
        for rows in (slice(0, at), slice(at, queries)):
            planes = {name: x[..., rows, :] for name in ("mask", "bias") if (x := problem.options.get(name)) is not None and x.dim() > 1 and x.shape[-2] > 1}
            part = problem.having(query=problem.query[:, :, rows], query_offset=offset + rows.start, **planes)
            parts.append(part.run(backend, EVERY))
        right, fine = problem.run(backend, EVERY), allowed(problem)
    agree(torch.cat([part.output for part in parts], 2), right.output, fine.output, "output")
    agree(torch.cat([part.lse for part in parts], 2), right.lse, fine.lse, "lse")
    for name in ROW_STATISTICS:
        agree(torch.cat([part.statistics[name] for part in parts], 2), right.statistics[name], fine.statistics[name], name)
    agree(sum(part.statistics["received"] for part in parts), right.statistics["received"], 2 * fine.statistics["received"], "received")


@every_backend
@given(problem=small, tile=tiles, data=st.data())
def test_a_head_of_a_batch_row_alone_is_the_head_among_others(backend, problem, tile, data):
    batch, heads, queries, keys = problem.shape
    b, h = data.draw(st.integers(0, batch - 1)), data.draw(st.integers(0, heads - 1))
    g = h // (heads // problem.key.shape[1])
    planes = {name: problem.options[name].expand(problem.shape)[b : b + 1, h : h + 1] for name in ("mask", "bias") if name in problem.options}
    if "sink" in problem.options:
        planes["sink"] = problem.options["sink"][h : h + 1]
    offset = torch.as_tensor(problem.options.get("query_offset", keys - queries)).expand(batch)[b : b + 1]
    alone = problem.having(
        query=problem.query[b : b + 1, h : h + 1],
        key=problem.key[b : b + 1, g : g + 1],
        value=problem.value[b : b + 1, g : g + 1],
        query_offset=offset,
        segments=problem.options["segments"][b : b + 1],
        **planes,
    )
    with cut(tile, problem):
        found, right, fine = alone.run(backend, ("all",)), problem.run(backend, ("all",)), allowed(problem)
    agree(found.output[0, 0], right.output[b, h], fine.output[b, h], "output")
    agree(found.lse[0, 0], right.lse[b, h], fine.lse[b, h], "lse")
    for name in ROW_STATISTICS[:-1]:
        agree(found.statistics[name][0, 0], right.statistics[name][b, h], fine.statistics[name][b, h], name)


@every_backend
@given(problem=small, tile=tiles, by=st.sampled_from([-40.0, 2.5, 3000.0]))
def test_a_bias_on_all_scores_of_a_row_moves_lse_alone(backend, problem, tile, by):
    problem = problem.having(sink=None, bias=torch.zeros(1, dtype=problem.query.dtype))
    shifted = problem.having(bias=torch.full((1,), by, dtype=problem.query.dtype))
    fine = allowed(shifted)
    with cut(tile, problem):
        found, right = shifted.run(backend, ("all",)), problem.run(backend, ("all",))
    agree(found.lse, right.lse + by, 2 * fine.lse, "lse")
    agree(found.output, right.output, 2 * fine.output, "output")
    for name in ROW_STATISTICS[:-1]:
        agree(found.statistics[name], right.statistics[name], 2 * fine.statistics[name], name)


@every_backend
@given(problem=small, tile=tiles, seed=seeds)
def test_a_sink_is_one_more_key_of_value_zero(backend, problem, tile, seed):
    """A key of zeros has the score 0, capped too: its bias is the sink's logit, and every row sees it."""
    batch, heads, queries, keys = problem.shape
    dtype = problem.query.dtype
    sink = normal(heads, seed=seed, dtype=dtype)
    problem = as_mask(problem).having(sink=sink)
    mask = torch.cat([problem.options["mask"], torch.ones(batch, heads, queries, 1, dtype=torch.bool)], -1)
    bias = torch.zeros(problem.shape, dtype=dtype) + problem.options.get("bias", torch.zeros(())).to(dtype)
    bias = torch.cat([bias, sink[None, :, None, None].expand(batch, heads, queries, 1)], -1)
    offset = problem.options.get("query_offset", keys - queries)
    key, value = (torch.cat([x, torch.zeros_like(x[:, :, :1])], 2) for x in (problem.key, problem.value))
    longer = problem.having(key=key, value=value, sink=None, mask=mask, bias=bias, query_offset=offset, segments=None)
    with cut(tile, problem):
        found, right, fine = longer.run(backend), problem.run(backend, "sink"), allowed(problem)
    agree(found.output, right.output, fine.output, "output")
    agree(found.lse, right.lse, fine.lse, "lse")
    agree((sink[None, :, None] - found.lse).exp(), right.statistics["sink"], 2 * fine.statistics["sink"] + 1e-6 * right.statistics["sink"], "sink")

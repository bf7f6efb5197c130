"""Where a module keeps its maps: by name, given, and what is said where they are not to be found."""

import pytest
import torch
from torch import nn

from headwise.conformance.adapters.projection_weights import find_projections
from headwise.conformance.adapters.sizing.pad_to_size import Sizes
from headwise.conformance.problems.problem_pool import make_layer_problem
from headwise.errors import ArgumentError
from tests.conformance.check import strangers


class Named(nn.Module):
    """Linear maps by the names given."""

    def __init__(self, heads: int | None = 4, **widths: tuple[int, int]) -> None:
        super().__init__()
        if heads is not None:
            self.num_heads = heads
        for name, (reads, writes) in widths.items():
            setattr(self, name, nn.Linear(reads, writes))


def four(**other):
    return {"to_q": (16, 16), "to_k": (16, 8), "to_v": (16, 8), "to_out": (16, 16), **other}


def test_the_sizes_follow_from_the_maps():
    assert find_projections(Named(**four())).sizes == Sizes(d_model=16, d_context=16, num_heads=4, num_kv_heads=2, head_dim=4, value_dim=4)
    assert find_projections(strangers.SelfAttention()).sizes.num_kv_heads == 4
    assert find_projections(Named(q=(16, 16), kv=(12, 16), out=(16, 16))).sizes == Sizes(16, 12, 4, 2, 4, 4)


def test_maps_that_are_given():
    module = Named(asks=(16, 16), answers=(16, 16), says=(16, 16), writes=(16, 16))
    maps = find_projections(module, {"q": "asks", "k": "answers", "v": "says", "out": "writes"})
    assert {what: one.name for what, one in maps.by_role.items()} == {"q": "asks", "k": "answers", "v": "says", "out": "writes"}


@pytest.mark.parametrize("packing", ["q k v", "by head", "by group"])
def test_a_packed_map_is_filled_in_its_order(packing):
    from headwise.conformance.adapters.projection_weights import with_packing

    learned = make_layer_problem(sizes={"d_model": 16, "heads": 4, "groups": 4, "head_dim": 4, "value_dim": 4}).params
    maps = with_packing(find_projections(strangers.SelfAttention()), packing)
    weight = maps.parameters(learned)["qkv.weight"].unflatten(0, (3, 4, 4) if packing == "q k v" else (4, 3, 4))
    first = weight[0] if packing == "q k v" else weight[:, 0]
    assert torch.equal(first, learned.w_q.permute(1, 2, 0))


@pytest.mark.parametrize(
    ("module", "given", "said"),
    [
        (nn.ReLU(), {}, "The projections of ReLU were not found under the usual names; it has no linear maps. Name them: arguments="),
        (Named(asks=(4, 4)), {}, "The projections of Named were not found under the usual names; it has asks. Name them: arguments="),
        (Named(None, **four()), {}, "Named has no attribute that states its number of heads. Give it: arguments={'num_heads': ...}."),
        (Named(**four()), {"given": {"q": "asks"}}, r"projections\['q'\] must be the name of a linear map, got 'asks'. There are to_q, to_k, to_v, to_out."),
        (Named(3, **four()), {}, "num_heads must divide the width that the output projection reads, got 3 and 16 in Named. Give num_heads."),
        (Named(**four(to_k=(16, 6))), {}, r"The projections of Named do not split evenly over 4 heads: \{.*\}. Give num_heads and num_kv_heads."),
    ],
)
def test_maps_that_are_not_to_be_found(plain, module, given, said):
    with pytest.raises(ArgumentError, match=said):
        find_projections(module, **given)

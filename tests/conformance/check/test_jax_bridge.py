"""Numbers and gradients cross to jax and back in the dtype that they have."""

import pytest
import torch

from headwise.conformance.adapters.backends.jax_backend import DTYPES, torch_of


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_goes_over_and_comes_back(dtype):
    pytest.importorskip("jax", reason="jax is of the extra peers")
    left, right = (torch.tensor(numbers, dtype=dtype) for numbers in ([1.0, 2.5, -3.0], [0.5, 4.0, 2.0]))
    left.requires_grad_()
    found = torch_of(lambda query, key: query * key, {"query": left, "key": right})
    found.sum().backward()
    assert found.dtype == left.grad.dtype == dtype
    assert torch.equal(found.detach(), (left * right).detach()) and torch.equal(left.grad, right)

"""Whether what W_O reads of a head depends on that head alone: tested by perturbing z, head by head."""

from collections.abc import Callable, Iterator

import torch

from headwise.axes import Bool, Output, Tensor


def mixing_reason(read: Tensor, heads: int, again: Callable[[Tensor], Tensor]) -> str | None:
    """Why heads are mixed between attention and W_O, or None.

    z of some heads is perturbed, and the input of W_O's module is computed again: exactly those heads' numbers must change.
    2·log2(H) such sets separate every pair of heads.

    Args:
        read: what W_O read, H·E numbers in the last axis.
        again: what it reads when z of the heads marked True is perturbed.
    """
    before = read.unflatten(-1, (heads, -1))
    silent = (before == 0).movedim(-2, 0).flatten(1).all(1).cpu()  # an ablated head stays at 0, however it is perturbed
    for chosen in _sets(heads):
        after = again(chosen).unflatten(-1, (heads, -1))
        same = (after == before) | (after.isnan() & before.isnan())
        changed = ~same.movedim(-2, 0).flatten(1).all(1).cpu()
        if bool((changed & ~chosen).any()):
            return f"head {_first(changed & ~chosen)} depends on other heads too (a norm over all heads?)"
        if bool((chosen & ~changed & ~silent).any()):
            return f"head {_first(chosen & ~changed & ~silent)} does not depend on z of that head"
    return None


def perturb_heads(z: Output, chosen: Bool[Tensor, " H"]) -> Output:
    """z with noise added for the chosen heads."""
    noise = torch.randn(z.shape, generator=torch.Generator().manual_seed(0)).to(z)
    return torch.where(chosen.to(z.device)[None, :, None, None], z + noise * (z.std() + 1), z)


def _sets(heads: int) -> Iterator[Bool[Tensor, " H"]]:
    """Sets of heads: for each two heads there is one that contains the first and not the second."""
    index = torch.arange(heads)
    for bit in range((heads - 1).bit_length()):
        held = (index >> bit) % 2 == 1
        yield held
        yield ~held


def _first(marks: Tensor) -> int:
    return int(marks.nonzero()[0])

"""The KV cache as an immutable value: appending returns a new cache and leaves the old one as it was."""

from dataclasses import dataclass

import torch

from headwise.axes import Key, Tensor, Value
from headwise.errors import ArgumentTypeError, ShapeError


@dataclass(frozen=True, eq=False)
class KVCache:
    """Keys and values of the tokens so far. Key j is at position j; rotary embeddings are already applied to `k`.

    A text processed at once, token by token or in chunks gives the same cache: the position of a token is the length of the
    cache that it is appended to.

    Example:
        >>> past = KVCache(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 5))
        >>> longer = past.append(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 5))
        >>> past.length, longer.length
        (3, 4)
    """

    k: Key
    v: Value

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self.k.shape[2]

    def append(self, k: Tensor, v: Tensor) -> "KVCache":
        """A cache with these keys and values after its own.

        Raises:
            ShapeError: batch, heads or width differ from those of the cache, or k and v have different lengths.
            ArgumentTypeError: the dtype differs; nothing is converted silently.
        """
        for name, old, new in (("k", self.k, k), ("v", self.v, v)):
            if new.dim() != 4 or new.shape[:2] != old.shape[:2] or new.shape[3] != old.shape[3]:
                b, g, _, d = old.shape
                raise ShapeError(f"{name} must be [{b}, {g}, any length, {d}] like the cache, got {list(new.shape)}. Use the cache of this layer and batch.")
            if new.dtype != old.dtype:
                raise ArgumentTypeError(f"{name} must have the dtype of the cache, got {new.dtype} and {old.dtype}. Convert one of them.")
        if k.shape[2] != v.shape[2]:
            raise ShapeError(f"k and v must have the same length, got {k.shape[2]} and {v.shape[2]}. Append both of the same tokens.")
        return KVCache(torch.cat([self.k, k], 2), torch.cat([self.v, v], 2))

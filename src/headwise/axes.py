"""One letter for each axis, the same in signatures, einsum, docstrings and on the page.

    B batch            T query positions    S key positions      M model width
    H query heads      G key/value heads    D query/key width    E value width of a head
    L layers           V vocabulary

`#` before a letter means "this axis, or 1": the tensor broadcasts along it. Lower-case letters are parts of an axis.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Query = Float[Tensor, "B H T D"]
Key = Float[Tensor, "B G S D"]
Value = Float[Tensor, "B G S E"]
Output = Float[Tensor, "B H T E"]
Weights = Float[Tensor, "B H T S"]
Rows = Float[Tensor, "B H T"]  # one number for each query of each head: lse, most statistics
Interval = Int[Tensor, "#B #H T"]  # one key index for each query of each head
Mask = Bool[Tensor, "#B #H #T #S"]
Bias = Float[Tensor, "#B #H #T #S"]
Sink = Float[Tensor, "H"]

__all__ = ["Bias", "Bool", "Float", "Int", "Interval", "Key", "Mask", "Output", "Query", "Rows", "Sink", "Tensor", "Value", "Weights"]

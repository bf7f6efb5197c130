"""What an implementation may support, as names: the options of a call, further abilities, and the dtypes."""

from typing import Literal

import torch

CheckLevel = Literal["quick", "full"]
"""How much `hw.check` tries."""

Level = Literal["exact", "call", "layer"]
"""What is checked: an exact trace of the 3 × 4 example, an attention of query, key and value, or a layer from x to its output."""

OPTIONS = ("causal", "query_offset", "window", "mask", "bias", "scale", "softcap", "sink", "dropout")
"""Keyword arguments of `hw.attend`, which are fields of a problem."""

ABILITIES = ("groups", "value_width", "mask_by_head", "offset_by_row", "weights", "lse", "gradients", "empty", "long", "wide")
"""Fewer key/value heads than query heads; values whose width differs from the keys'; a mask or bias per head; a query offset per batch row; attention
weights returned; log-sum-exp returned; gradients; axes of length 0; several hundred tokens (40 for a layer); heads of up to 256 features."""

CLAIMS = ("batch_invariance",)
"""Guarantees beyond correctness: a batch row alone gives the same bits as in a batch."""

LAYER_ABILITIES = ("context", "biases", "rotary", "alibi", "buckets", "chunks", "settable")
"""Of a layer: cross-attention; biases of the projections; the kinds of positions; decoding in chunks with a KV cache; weights that can be replaced."""

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

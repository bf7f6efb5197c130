"""What happened to a head, in a word: the first that applies."""

from dataclasses import dataclass

from headwise.analysis.checkpoints.layer_changes import Changes
from headwise.errors import ArgumentError

WORDS = ("tied", "muted", "amplified", "rewired", "tempered", "sharpened", "unchanged")


@dataclass(frozen=True)
class Thresholds:
    """From where on a change has a name.

    Attributes:
        tied: cosine from which all slices of a head count as another's.
        muted: gain below it.
        amplified: gain above it.
        rewired: cosine of QK or OV below it.
        tempered: size of QK below it: flatter.
        sharpened: size of QK above it.
    """

    tied: float = 0.95
    muted: float = 0.7
    amplified: float = 1.25
    rewired: float = 0.8
    tempered: float = 0.8
    sharpened: float = 1.25

    def __post_init__(self) -> None:
        for low, high in (("muted", "amplified"), ("tempered", "sharpened")):
            if not 0 <= getattr(self, low) <= 1 <= getattr(self, high):
                raise ArgumentError(f"{low} must be in 0..1 and {high} at least 1, got {getattr(self, low)} and {getattr(self, high)}. Choose them around 1.")
        for name in ("tied", "rewired"):
            if not -1 <= getattr(self, name) <= 1:
                raise ArgumentError(f"{name} must be a cosine, got {getattr(self, name)}. Choose one from -1 to 1.")


def verdict(found: Changes, head: int, limits: Thresholds) -> tuple[str, str]:
    """The word, and the numbers that made it."""
    gain, ov, qk, size = (float(getattr(found, name)[head]) for name in ("gain", "ov", "qk", "size"))
    written, looked = not bool(found.faint_ov[head]), not bool(found.faint_qk[head])
    if int(found.twin[head]) >= 0:
        return "tied", f"its slices are head {int(found.twin[head])}'s, cosine {float(found.alike[head]):.3f} >= {limits.tied:g}"
    if written and gain < limits.muted:
        return "muted", f"gain {gain:.3f} < {limits.muted:g}"
    if written and gain > limits.amplified:
        return "amplified", f"gain {gain:.3f} > {limits.amplified:g}"
    if looked and qk < limits.rewired:
        return "rewired", f"cosine of QK {qk:.3f} < {limits.rewired:g}"
    if written and ov < limits.rewired:
        return "rewired", f"cosine of OV {ov:.3f} < {limits.rewired:g}"
    if looked and size < limits.tempered:
        return "tempered", f"size of QK {size:.3f} < {limits.tempered:g}"
    if looked and size > limits.sharpened:
        return "sharpened", f"size of QK {size:.3f} > {limits.sharpened:g}"
    return "unchanged", ""

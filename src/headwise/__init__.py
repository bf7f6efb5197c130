"""headwise: exact numbers for every head of a transformer, checked against the model's own output."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.attention.attend import attend as attend
    from headwise.attention.module import MultiHeadAttention as MultiHeadAttention
    from headwise.attention.position import Alibi as Alibi
    from headwise.attention.position import RelativeBuckets as RelativeBuckets
    from headwise.attention.position import Rotary as Rotary
    from headwise.attention.spec import Attended as Attended
    from headwise.attention.statistics import statistics as statistics
    from headwise.claims.investigate import investigate as investigate
    from headwise.edit.blind import Blind as Blind
    from headwise.edit.prune import Prune as Prune
    from headwise.edit.scale import Scale as Scale
    from headwise.edit.silence import Silence as Silence
    from headwise.edit.temper import Temper as Temper
    from headwise.edit.tie import Tie as Tie
    from headwise.errors import HeadwiseError as HeadwiseError
    from headwise.heads.casting import roles as roles
    from headwise.heads.compare import compare as compare
    from headwise.heads.importance import rank as rank
    from headwise.heads.resilience import resilience as resilience
    from headwise.heads.similarity import similar as similar
    from headwise.models.attentions import from_attentions as from_attentions
    from headwise.models.open import open_model as open_model
    from headwise.models.saving import load_run as load_run
    from headwise.proof.certificate import certify as certify
    from headwise.proof.five_moves import five_moves as five_moves
    from headwise.proof.kill_matrix import attack as attack
    from headwise.show.html import five_moves_html as five_moves_html
    from headwise.show.widget import five_moves_widget as five_moves_widget
    from headwise.subjects.cases import Case as Case
    from headwise.subjects.cases import cases as cases
    from headwise.subjects.check import check as check

__version__ = "0.1.0"

# Each name is imported when it is first asked for: `import headwise` costs nothing, and transformers and xarray wait until a model is opened.
_HOMES = {
    "Alibi": "headwise.attention.position",
    "Attended": "headwise.attention.spec",
    "Blind": "headwise.edit.blind",
    "Case": "headwise.subjects.cases",
    "HeadwiseError": "headwise.errors",
    "MultiHeadAttention": "headwise.attention.module",
    "Prune": "headwise.edit.prune",
    "RelativeBuckets": "headwise.attention.position",
    "Rotary": "headwise.attention.position",
    "Scale": "headwise.edit.scale",
    "Silence": "headwise.edit.silence",
    "Temper": "headwise.edit.temper",
    "Tie": "headwise.edit.tie",
    "attack": "headwise.proof.kill_matrix",
    "attend": "headwise.attention.attend",
    "cases": "headwise.subjects.cases",
    "certify": "headwise.proof.certificate",
    "check": "headwise.subjects.check",
    "compare": "headwise.heads.compare",
    "five_moves": "headwise.proof.five_moves",
    "five_moves_html": "headwise.show.html",
    "five_moves_widget": "headwise.show.widget",
    "from_attentions": "headwise.models.attentions",
    "investigate": "headwise.claims.investigate",
    "load_run": "headwise.models.saving",
    "open_model": "headwise.models.open",
    "rank": "headwise.heads.importance",
    "resilience": "headwise.heads.resilience",
    "roles": "headwise.heads.casting",
    "similar": "headwise.heads.similarity",
    "statistics": "headwise.attention.statistics",
}

__all__ = [
    "Alibi",
    "Attended",
    "Blind",
    "Case",
    "HeadwiseError",
    "MultiHeadAttention",
    "Prune",
    "RelativeBuckets",
    "Rotary",
    "Scale",
    "Silence",
    "Temper",
    "Tie",
    "attack",
    "attend",
    "cases",
    "certify",
    "check",
    "compare",
    "five_moves",
    "five_moves_html",
    "five_moves_widget",
    "from_attentions",
    "investigate",
    "load_run",
    "open_model",
    "rank",
    "resilience",
    "roles",
    "similar",
    "statistics",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'headwise' has no attribute {name!r}. It has {', '.join(__all__)}.")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""headwise: exact numbers for every head of a transformer, checked against the model's own output."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.analysis.ablation.rank import rank as rank
    from headwise.analysis.ablation.resilience import resilience as resilience
    from headwise.analysis.checkpoints.compare import compare as compare
    from headwise.analysis.roles.find_roles import roles as roles
    from headwise.analysis.similarity import similar as similar
    from headwise.attention.attend import attend as attend
    from headwise.attention.call import Attended as Attended
    from headwise.attention.module import MultiHeadAttention as MultiHeadAttention
    from headwise.attention.position import Alibi as Alibi
    from headwise.attention.position import RelativeBuckets as RelativeBuckets
    from headwise.attention.position import Rotary as Rotary
    from headwise.attention.statistics import statistics as statistics
    from headwise.conformance.cases import Case as Case
    from headwise.conformance.cases import cases as cases
    from headwise.conformance.check import check as check
    from headwise.conformance.exact.certificate import certify as certify
    from headwise.conformance.five_moves import five_moves as five_moves
    from headwise.conformance.kill_matrix import attack as attack
    from headwise.errors import HeadwiseError as HeadwiseError
    from headwise.experiments.investigate import investigate as investigate
    from headwise.interventions.edits.ablate import Ablate as Ablate
    from headwise.interventions.edits.mask_keys import MaskKeys as MaskKeys
    from headwise.interventions.edits.prune import Prune as Prune
    from headwise.interventions.edits.scale import Scale as Scale
    from headwise.interventions.edits.temperature import Temperature as Temperature
    from headwise.interventions.edits.tie_heads import TieHeads as TieHeads
    from headwise.models.loading.open_model import open_model as open_model
    from headwise.models.offline.given_attentions import from_attentions as from_attentions
    from headwise.models.offline.run_files import load_run as load_run
    from headwise.server.embedded.notebook_widget import five_moves_widget as five_moves_widget
    from headwise.server.embedded.saved_page import five_moves_html as five_moves_html

__version__ = "0.1.0"

# Each name is imported when it is first asked for: `import headwise` costs nothing, and transformers and xarray wait until a model is opened.
_HOMES = {
    "Ablate": "headwise.interventions.edits.ablate",
    "Alibi": "headwise.attention.position",
    "Attended": "headwise.attention.call",
    "Case": "headwise.conformance.cases",
    "HeadwiseError": "headwise.errors",
    "MaskKeys": "headwise.interventions.edits.mask_keys",
    "MultiHeadAttention": "headwise.attention.module",
    "Prune": "headwise.interventions.edits.prune",
    "RelativeBuckets": "headwise.attention.position",
    "Rotary": "headwise.attention.position",
    "Scale": "headwise.interventions.edits.scale",
    "Temperature": "headwise.interventions.edits.temperature",
    "TieHeads": "headwise.interventions.edits.tie_heads",
    "attack": "headwise.conformance.kill_matrix",
    "attend": "headwise.attention.attend",
    "cases": "headwise.conformance.cases",
    "certify": "headwise.conformance.exact.certificate",
    "check": "headwise.conformance.check",
    "compare": "headwise.analysis.checkpoints.compare",
    "five_moves": "headwise.conformance.five_moves",
    "five_moves_html": "headwise.server.embedded.saved_page",
    "five_moves_widget": "headwise.server.embedded.notebook_widget",
    "from_attentions": "headwise.models.offline.given_attentions",
    "investigate": "headwise.experiments.investigate",
    "load_run": "headwise.models.offline.run_files",
    "open_model": "headwise.models.loading.open_model",
    "rank": "headwise.analysis.ablation.rank",
    "resilience": "headwise.analysis.ablation.resilience",
    "roles": "headwise.analysis.roles.find_roles",
    "similar": "headwise.analysis.similarity",
    "statistics": "headwise.attention.statistics",
}

__all__ = [
    "Ablate",
    "Alibi",
    "Attended",
    "Case",
    "HeadwiseError",
    "MaskKeys",
    "MultiHeadAttention",
    "Prune",
    "RelativeBuckets",
    "Rotary",
    "Scale",
    "Temperature",
    "TieHeads",
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


# Names of earlier releases, each with the one that replaces it.
_RENAMED = {"Blind": "MaskKeys", "Silence": "Ablate", "Temper": "Temperature", "Tie": "TieHeads"}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        from headwise.deprecation import renamed

        return __getattr__(renamed(name, _RENAMED, "headwise"))
    if name not in _HOMES:
        raise AttributeError(f"module 'headwise' has no attribute {name!r}. It has {', '.join(__all__)}.")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

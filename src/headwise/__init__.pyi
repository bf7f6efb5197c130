"""The public names of headwise and the modules that define them: the one list, which `__init__.py` and type checkers read."""

from .analysis.ablation.rank import rank as rank
from .analysis.ablation.resilience import resilience as resilience
from .analysis.checkpoints.compare import compare as compare
from .analysis.roles.find_roles import roles as roles
from .analysis.similarity import similar as similar
from .attention.attend import attend as attend
from .attention.call import Attended as Attended
from .attention.module import MultiHeadAttention as MultiHeadAttention
from .attention.position import Alibi as Alibi
from .attention.position import RelativeBuckets as RelativeBuckets
from .attention.position import Rotary as Rotary
from .attention.statistics import statistics as statistics
from .conformance.cases import Case as Case
from .conformance.cases import cases as cases
from .conformance.check import check as check
from .conformance.exact.certificate import certify as certify
from .conformance.five_moves import five_moves as five_moves
from .conformance.kill_matrix import attack as attack
from .errors import HeadwiseError as HeadwiseError
from .experiments.investigate import investigate as investigate
from .interventions.edits.ablate import Ablate as Ablate
from .interventions.edits.mask_keys import MaskKeys as MaskKeys
from .interventions.edits.prune import Prune as Prune
from .interventions.edits.scale import Scale as Scale
from .interventions.edits.temperature import Temperature as Temperature
from .interventions.edits.tie_heads import TieHeads as TieHeads
from .models.loading.open_model import open_model as open_model
from .models.offline.given_attentions import from_attentions as from_attentions
from .models.offline.run_files import load_run as load_run
from .server.embedded.notebook_widget import five_moves_widget as five_moves_widget
from .server.embedded.saved_page import five_moves_html as five_moves_html

__version__: str

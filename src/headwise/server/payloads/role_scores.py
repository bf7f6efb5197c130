"""The scores of heads on roles, as the page reads them."""

from typing import TYPE_CHECKING, Any

from headwise.analysis.roles.catalog import roles as known_roles
from headwise.analysis.roles.find_roles import roles
from headwise.progress import ProgressCallback

if TYPE_CHECKING:
    from headwise.models.model import Model

TEXTS = 40  # for each role: enough for a clear lead, in about a minute


def testable_roles() -> list[dict[str, str]]:
    """The roles that can be tested without further data, each with its definition."""
    return [{"name": name, "statement": role.definition} for name, role in known_roles().items() if not role.needs]


def score_roles(model: "Model", progress: ProgressCallback, limit: int = TEXTS, only: str | None = None) -> dict[str, Any]:
    """The score of every head on every role that can be tested without further data, and the baseline it must beat.

    Args:
        progress: called as work advances.
        limit: texts for each role.
        only: test this role alone; all when None.
    """
    found = roles(model, only or "all", limit=limit, progress=progress)
    tasks = found.task.values.tolist()
    scores = [
        {
            "name": task,
            "role": str(found.of_role.values[n]),
            "statement": known_roles()[str(found.of_role.values[n])].definition,
            "baseline": float(found.baseline.values[n]),
            "rule": str(found.rule.values[n]),
            "found": bool(found.found.values[n]),
            "best": [int(found.best_layer.values[n]), int(found.best_head.values[n])],
            "values": found.score.values[n].tolist(),
            "low": found.low.values[n].tolist(),
            "high": found.high.values[n].tolist(),
        }
        for n, task in enumerate(tasks)
    ]
    return {"roles": scores, "role": [[None if name == "none" else str(name) for name in row] for row in found.role.values.tolist()]}

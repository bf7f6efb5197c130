"""Which heads play which roles, as the page reads it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwise.analysis.roles.catalog import roles as known
from headwise.analysis.roles.find_roles import roles

if TYPE_CHECKING:
    from headwise.models.model import Model

TEXTS = 40  # for each role: enough for a certain lead, in about a minute


def playable() -> list[dict[str, str]]:
    """The roles that can be asked without further material, each with its definition."""
    return [{"name": name, "statement": role.definition} for name, role in known().items() if not role.needs]


def played(model: "Model", tell: Callable[[str, int, int], None], limit: int = TEXTS, only: str | None = None) -> dict[str, Any]:
    """Every role that can be asked without further material: what each head scores, and the bar that it must beat.

    Args:
        tell: told of the progress: what, how many are done, how many there are.
        limit: texts for each role.
        only: this role alone; all when None.
    """
    found = roles(model, only or "all", limit=limit, tell=tell)
    tasks = found.task.values.tolist()
    told = [
        {
            "name": task,
            "role": str(found.of_role.values[n]),
            "statement": known()[str(found.of_role.values[n])].definition,
            "bar": float(found.baseline.values[n]),
            "rule": str(found.rule.values[n]),
            "found": bool(found.found.values[n]),
            "best": [int(found.best_layer.values[n]), int(found.best_head.values[n])],
            "values": found.score.values[n].tolist(),
            "low": found.low.values[n].tolist(),
            "high": found.high.values[n].tolist(),
        }
        for n, task in enumerate(tasks)
    ]
    return {"roles": told, "role": [[None if name == "none" else str(name) for name in row] for row in found.role.values.tolist()]}

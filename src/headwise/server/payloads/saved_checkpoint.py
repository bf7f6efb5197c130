"""Edits saved as a checkpoint that transformers loads."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import ArgumentError, ModelError
from headwise.interventions.edits.ablate import Ablate
from headwise.interventions.edits.scale import Scale
from headwise.server.payloads.head_scale import HeadScale

if TYPE_CHECKING:
    from headwise.models.model import Model
    from headwise.models.run import Run


def save_checkpoint(model: "Model", run: "Run", edits: Sequence[HeadScale], folder: Path) -> dict[str, Any]:
    """Save the edited model to a new folder; every tensor that no edit changes keeps its bytes.

    Args:
        run: of a text; it shows where the model's heads are.

    Raises:
        ArgumentError: there is something of this name already.
        ModelError: the edits cannot be made in the weights, or the folder cannot be written.
    """
    if folder.exists():
        raise ArgumentError(f"There is already a checkpoint named {folder.name!r}. Choose another name.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        saved = model.edit([_edit(edit) for edit in edits], mode="weights", inputs=dict(run.forward_pass.inputs)).save(folder)
    except OSError as error:
        raise ModelError(f"Cannot write checkpoints to {str(folder.parent)!r}: {error.strerror or error}. Start with another --save.") from None
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    changed = [*saved.changed]
    return {"path": str(folder.resolve()), "changed": changed, "of_tensors": len(changed) + len(saved.kept), "bytes": size}


def _edit(edit: HeadScale) -> Ablate | Scale:
    return Ablate(edit.layer, edit.head, part=edit.part) if edit.scale == 0 else Scale(edit.layer, edit.head, edit.scale, part=edit.part)

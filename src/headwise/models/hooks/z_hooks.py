"""What heads say, changed on its way into W_O: a model like another, in which it happens whenever it runs."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from headwise.axes import Float, Tensor
from headwise.errors import WritesRefused
from headwise.models.capture.layout import Layout, Output
from headwise.models.hooks.derived_model import derived

TURN = "_headwise_turn"  # an attribute of W_O's module: how often it has run in this pass; copied with it, so that each twin counts alone

Words = Float[Tensor, "B T H E"]
Change = Callable[[Words], Words]


def with_words_changed(hf: nn.Module, layout: Layout, heads: Mapping[int, int], changes: Mapping[int, Change]) -> Any:
    """The model again, the tensors shared; before W_O reads what the heads of a call say, `changes` is applied to it.

    The original is not touched. The result runs like any model, under every attention implementation, also through `Model.run`.

    Args:
        layout: from a run of the model on an input of this kind.
        heads: how many heads each changed call has, by its index.
        changes: by index of the call; each is told what W_O reads, gates included, as [B, T, H, E], and gives it back changed.

    Raises:
        WritesRefused: heads of a call cannot be told apart, or W_O reads several calls at once.
    """
    other = derived(hf)
    by_module: dict[str, dict[int, tuple[int, Output, Change]]] = {}
    for index, change in changes.items():
        output = _output(layout, index)
        by_module.setdefault(output.module, {})[output.turn] = (heads[index], output, change)
    uses = Counter(module for module, _ in layout.by_output)
    for name, turns in by_module.items():
        other.get_submodule(name).register_forward_pre_hook(_Reader(turns, uses[name] > 1), with_kwargs=True)
    other.register_forward_pre_hook(_Start(tuple(by_module)))
    return other


def scaled(factors: Float[Tensor, " H"]) -> Change:
    """Each head's words times its factor: 0 silences it."""

    def change(words: Words) -> Words:
        return words * factors.to(words)[:, None]

    return change


def _output(layout: Layout, index: int) -> Output:
    site = layout.sites[index]
    if site.output is None:
        raise WritesRefused(f"heads of {site.module} must be told apart before W_O, got none: {site.refusal}.")
    if len(site.output.calls) > 1:
        raise WritesRefused(
            f"W_O of {site.module} must read one attention call at a time, got {len(site.output.calls)} joined. They cannot be changed one by one."
        )
    return site.output


class _Start:
    """Before the model runs: every W_O has been used 0 times."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __call__(self, model: nn.Module, args: Any) -> None:
        for name in self.names:
            vars(model.get_submodule(name))[TURN] = 0


class _Reader:
    """Before W_O's module runs: the words of the call whose turn it is are changed.

    Args:
        counting: the module runs several times in a pass; where it does not, every use counts, also in parts of the model run alone.
    """

    def __init__(self, turns: Mapping[int, tuple[int, Output, Change]], counting: bool) -> None:
        self.turns, self.counting = turns, counting

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        turn = vars(module).get(TURN, 0) if self.counting else 0
        vars(module)[TURN] = turn + 1
        if turn not in self.turns:
            return None
        heads, output, change = self.turns[turn]
        if args:
            return (_changed(args[0], heads, output, change), *args[1:]), kwargs
        return args, kwargs | {"input": _changed(kwargs["input"], heads, output, change)}


def _changed(read: Tensor, heads: int, output: Output, change: Change) -> Tensor:
    batched = read if read.dim() == 3 else read.reshape(1, -1, read.shape[-1])
    words = (batched.transpose(0, 1) if output.sequence_first else batched).unflatten(-1, (heads, -1))
    new = change(words).to(read.dtype).flatten(2)
    return (new.transpose(0, 1) if output.sequence_first else new).reshape(read.shape)


def turns_of(module: nn.Module) -> dict[nn.Module, int]:
    """How often each module inside that counts has run."""
    return {inner: vars(inner)[TURN] for inner in module.modules() if TURN in vars(inner)}


def set_turns(turns: Mapping[nn.Module, int]) -> None:
    """Put the counts back, after a part of the model has run once more than it should."""
    for module, turn in turns.items():
        vars(module)[TURN] = turn

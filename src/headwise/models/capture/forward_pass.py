"""Forward passes of a model over one input: recorded by us, or as the model was loaded."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache

from headwise.axes import Tensor
from headwise.errors import HeadwiseError, ModelError
from headwise.models.capture.hf_attention import register
from headwise.models.capture.layout_discovery import LayoutDiscovery
from headwise.models.capture.recorder import AttentionRecord, CaptureSpec, LayoutChanged, Recorder
from headwise.models.capture.torch_mha import instrument_mha
from headwise.models.hooks.shallow_clone import shallow_clone
from headwise.models.implementation import IMPLEMENTATION
from headwise.models.layout import Layout

FOREIGN = (IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError, AssertionError)


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """A model and one input, so that the pass can be run again, to the same numbers.

    Attributes:
        hf: the model; passes run on clones of it.
        inputs: the model's keyword arguments.
        layout: of the attention calls, as the first pass found it.
        rng_state: of torch's random numbers before the first pass, for a model that draws some in eval mode too; None for any other.
    """

    hf: nn.Module
    inputs: Mapping[str, Any]
    layout: Layout
    rng_state: Tensor | None = None

    def rerun(self, on_record: Callable[[AttentionRecord], None], calls: Collection[int] | None = None, statistics: tuple[str, ...] = ()) -> Any:
        """Run the pass again and hand over records of these calls; the model's output, or None when the pass ended after the last of them."""
        with restored_rng(self.rng_state):
            return run_recorded(self.hf, self.inputs, self.layout, CaptureSpec(statistics, on_record, calls))

    def run_unmodified(self, implementation: str | None = None) -> Any:
        """The model's output without us: as it was loaded, or with another attention implementation."""
        with restored_rng(self.rng_state):
            return run_unmodified(self.hf, self.inputs, implementation)

    def module(self, name: str) -> nn.Module:
        return self.hf.get_submodule(name)


@contextmanager
def restored_rng(rng_state: Tensor | None) -> Iterator[None]:
    """Let a pass draw the random numbers that an earlier one drew, where it drew any, and put the state back."""
    if rng_state is None:
        yield
        return
    with torch.random.fork_rng(devices=()):
        torch.random.set_rng_state(rng_state)
        yield


def discover_layout(hf: nn.Module, inputs: Mapping[str, Any], spec: CaptureSpec, entry: str = "") -> tuple[Any, Layout]:
    """The model's output, and the layout of its calls, from a pass in which every module and operator is observed.

    Args:
        entry: the module that the pass is of; the whole model when empty.
    """
    register()
    discovery = LayoutDiscovery(instrumented_clone(hf), inputs, spec, entry)
    return _explained(hf, discovery.run, inputs, entry)


def run_recorded(hf: nn.Module, inputs: Mapping[str, Any], layout: Layout, spec: CaptureSpec, entry: str = "") -> Any:
    """The model's output, from a pass whose layout is known.

    Raises:
        LayoutChanged: the calls of this pass are not those of the layout.
    """
    register()
    return _explained(hf, Recorder(instrumented_clone(hf), layout, inputs, spec, entry).run, inputs, entry)


def instrumented_clone(hf: nn.Module) -> nn.Module:
    """A clone whose attention calls our function, that of torch's own modules too; it keeps a cache if the model was loaded to keep one."""
    clone = shallow_clone(hf, IMPLEMENTATION, use_cache=None)
    instrument_mha(clone)
    return clone


def run_unmodified(hf: nn.Module, inputs: Mapping[str, Any], implementation: str | None = None) -> Any:
    """The model's output in eval mode, without us.

    Args:
        implementation: of attention; None for that of each part as it was loaded.
    """
    with torch.inference_mode(False), torch.no_grad():
        return explain_errors(hf, lambda: shallow_clone(hf, implementation, use_cache=None)(**inputs), None)


def output_tensors(outputs: Any) -> dict[str, Tensor]:
    """The tensors that a model returned, by name; its caches and lists are left out."""
    named = outputs if isinstance(outputs, Mapping) else {f"output {i}": x for i, x in enumerate(outputs if isinstance(outputs, list | tuple) else [outputs])}
    return {name: x.detach() for name, x in named.items() if isinstance(x, Tensor)}


def explain_errors(hf: nn.Module, run: Callable[[], Any], unmodified: Callable[[], Any] | None) -> Any:
    """Run, and turn an error of the model's own code into one of ours, which blames the input only where the model alone fails on it too.

    Args:
        unmodified: the same without us; None where `run` is that already.

    Raises:
        ModelError: the model does not take this input, or headwise has a fault; the message says which.
    """
    try:
        return run()
    except (HeadwiseError, LayoutChanged):
        raise
    except FOREIGN as error:
        kind, said = type(hf).__name__, _first_line(error)
        if unmodified is None or _fails(unmodified):
            raise ModelError(f"{kind} must accept its input, got {said}. Check names, shapes and lengths.") from error
        raise ModelError(f"headwise failed inside {kind}, which takes this input on its own: {said}. This is a fault of headwise, not of the input.") from error


def _explained(hf: nn.Module, run: Callable[[], Any], inputs: Mapping[str, Any], entry: str) -> Any:
    """Run a pass with its errors explained; those of a step of a generation are left to who runs all steps, as its cache cannot be put back."""
    if any(isinstance(x, Cache) for x in inputs.values()):
        return run()
    return explain_errors(hf, run, lambda: run_unmodified(hf.get_submodule(entry), inputs))


def _fails(run: Callable[[], Any]) -> bool:
    try:
        run()
    except (HeadwiseError, *FOREIGN):
        return True
    return False


def _first_line(error: Exception) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__

"""A model and one input: the pass over it can be run again, to the same numbers, for what was not kept."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from headwise.axes import Tensor
from headwise.errors import HeadwiseError, ModelError
from headwise.models.capture.hf_attention import IMPLEMENTATION, register
from headwise.models.capture.layout_discovery import LayoutDiscovery
from headwise.models.capture.recorder import AttentionRecord, CaptureSpec, LayoutChanged, Recorder
from headwise.models.capture.torch_mha import instrument_mha
from headwise.models.hooks.shallow_clone import shallow_clone
from headwise.models.layout import Layout


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """What a pass is made of.

    Attributes:
        hf: the model; passes run on twins of it.
        inputs: the model's keyword arguments.
        layout: of the calls, as the first pass drew it.
        draws: the state of torch's random numbers before the first pass, for a model that draws some in eval mode too.
    """

    hf: nn.Module
    inputs: Mapping[str, Any]
    layout: Layout
    rng_state: Tensor | None = None

    def rerun(self, on_record: Callable[[AttentionRecord], None], calls: Collection[int] | None = None, statistics: tuple[str, ...] = ()) -> Any:
        """Run the pass again and tell of these calls; the model's output, or None when it ended after the last of them."""
        with restored_rng(self.rng_state):
            return run_recorded(self.hf, self.inputs, self.layout, CaptureSpec(statistics, on_record, calls))

    def run_unmodified(self, implementation: str) -> Any:
        """The model's output with another attention implementation."""
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
    """The model's output, and the layout of its calls, from a pass in which every module and operator is watched.

    Args:
        entry: the module that the pass is of; the whole model when empty.
    """
    register()
    discovery = LayoutDiscovery(instrumented_clone(hf), inputs, spec, unmasked_is_causal(hf), entry)
    return explain_errors(hf, discovery.run)


def run_recorded(hf: nn.Module, inputs: Mapping[str, Any], layout: Layout, spec: CaptureSpec, entry: str = "") -> Any:
    """The model's output, from a pass whose layout is known.

    Raises:
        LayoutChanged: the model took another way than the layout says.
    """
    register()
    return explain_errors(hf, Recorder(instrumented_clone(hf), layout, inputs, spec, unmasked_is_causal(hf), entry).run)


def instrumented_clone(hf: nn.Module) -> nn.Module:
    """A twin whose attention calls our function, torch's own modules too."""
    found = shallow_clone(hf, IMPLEMENTATION)
    instrument_mha(found)
    return found


def run_unmodified(hf: nn.Module, inputs: Mapping[str, Any], implementation: str) -> Any:
    """The model's output with another attention implementation, in eval mode."""
    with torch.inference_mode(False), torch.no_grad():
        return explain_errors(hf, lambda: shallow_clone(hf, implementation)(**inputs))


def unmasked_is_causal(hf: nn.Module) -> bool:
    """Whether no mask means causal in a module that says so: with every implementation but eager."""
    return isinstance(hf, PreTrainedModel) and hf.config._attn_implementation != "eager"


def output_tensors(outputs: Any) -> dict[str, Tensor]:
    """The tensors that a model returned, by name; its caches and lists left out."""
    named = outputs if isinstance(outputs, Mapping) else {f"output {i}": x for i, x in enumerate(outputs if isinstance(outputs, list | tuple) else [outputs])}
    return {name: x.detach() for name, x in named.items() if isinstance(x, Tensor)}


def explain_errors(hf: nn.Module, run: Callable[[], Any]) -> Any:
    """Run, and say in one line of ours which input a model's own code stumbled over."""
    try:
        return run()
    except (HeadwiseError, LayoutChanged):
        raise
    except (IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise ModelError(f"{type(hf).__name__} must accept its input, got {type(error).__name__}: {said}. Check names, shapes and lengths.") from error

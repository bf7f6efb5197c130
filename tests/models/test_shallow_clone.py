"""A twin shares tensors and nothing else, and leaves its model as it is."""

import threading

import pytest
import torch
from torch import nn

import headwise as hw
from headwise.errors import ModelError
from headwise.models.hooks.shallow_clone import shallow_clone
from tests.models.tiny import FAMILIES, build, given


def test_a_twin_has_the_same_tensors_and_its_own_modules():
    hf = build("gemma2")
    other = shallow_clone(hf, "eager")
    assert all(mine is theirs for mine, theirs in zip(hf.parameters(), other.parameters(), strict=True))
    assert all(mine is theirs for mine, theirs in zip(hf.buffers(), other.buffers(), strict=True))
    assert [name for name, _ in hf.named_modules()] == [name for name, _ in other.named_modules()]
    assert not {id(module) for module in hf.modules()} & {id(module) for module in other.modules()}
    assert other.config is not hf.config
    assert other.model.config is other.config


def test_a_twin_computes_the_same():
    hf = build("qwen3")
    with torch.no_grad():
        assert torch.equal(shallow_clone(hf, "sdpa")(**given(FAMILIES["qwen3"])).logits, hf(**given(FAMILIES["qwen3"])).logits)


def test_what_points_at_modules_points_at_the_twin_s():
    hf = build("llama")
    first = hf.model.layers[0]
    hf.chosen = [first, (first.mlp, {"norm": hf.model.norm})]
    hf.ask = first.mlp.forward
    other = shallow_clone(hf, "eager")
    assert other.chosen[0] is other.model.layers[0]
    assert other.chosen[1][0] is other.model.layers[0].mlp
    assert other.chosen[1][1]["norm"] is other.model.norm
    assert other.ask.__self__ is other.model.layers[0].mlp
    assert hf.chosen[0] is first


def test_a_user_s_hooks_run_on_the_twin_and_stay_the_user_s():
    hf, seen = build("llama"), []

    class Recorder:
        def __init__(self):
            self.lock = threading.Lock()  # cannot be copied

        def hook(self, module, args, output):
            seen.append(type(module).__name__)

    hf.lm_head.register_forward_hook(Recorder().hook)
    hw.open_model(hf).run(given(FAMILIES["llama"]))
    assert seen == ["Linear"]


def test_a_hook_that_changes_the_model_changes_the_run():
    hf = build("llama")
    plain = hw.open_model(hf).run(given(FAMILIES["llama"])).outputs["logits"]
    hf.model.layers[0].self_attn.o_proj.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    changed = hw.open_model(hf).run(given(FAMILIES["llama"])).outputs["logits"]
    assert not torch.allclose(plain, changed)


def test_a_run_leaves_the_model_as_it_was():
    hf = build("mistral").train()
    hf.model.layers[1].eval()
    before = _state(hf)
    run = hw.open_model(hf).run(given(FAMILIES["mistral"]))
    assert run.proof.passed
    assert _state(hf) == before


def test_a_run_that_fails_leaves_the_model_as_it_was():
    hf = build("llama").train()
    hf.model.layers[1].mlp.register_forward_hook(_stumble)
    before = _state(hf)
    with pytest.raises(ModelError, match="LlamaForCausalLM must accept its input, got ValueError: stumbled"):
        hw.open_model(hf).run(given(FAMILIES["llama"]))
    assert _state(hf) == before


def test_while_a_run_runs_the_model_is_as_it_was():
    """Seen from inside the pass: nothing of the user's model is switched, even for a moment."""
    hf, states = build("llama").train(), []
    before = _state(hf)
    hf.model.layers[1].mlp.act_fn.register_forward_hook(lambda *_: states.append(_state(hf)))
    before = _state(hf)
    hw.open_model(hf).run(given(FAMILIES["llama"]))
    assert states == [before]


def test_two_models_may_share_a_configuration():
    one = build("llama", seed=1)
    other = type(one)(one.config).eval()
    assert other.config is one.config
    run = hw.open_model(other).run(given(FAMILIES["llama"]))
    assert run.proof.passed
    assert one.config._attn_implementation == "sdpa"


def _stumble(*_):
    raise ValueError("stumbled")


def _state(hf: nn.Module):
    modules = [
        (name, module.training, len(module._forward_hooks), len(module._forward_pre_hooks), sorted(vars(module)), id(vars(module).get("forward")))
        for name, module in hf.named_modules()
    ]
    tensors = [(name, id(x), x._version, x.requires_grad) for name, x in [*hf.named_parameters(), *hf.named_buffers()]]
    return modules, tensors, hf.config.to_dict(), hf.config._attn_implementation

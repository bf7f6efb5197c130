"""Faults that hide in a corner are found at the quick level; honest ones that live there are not accused."""

import re

import pytest
import torch
from torch import nn

from headwise.conformance.adapters.call_guard import printable
from headwise.conformance.adapters.resolve import resolve
from headwise.conformance.cases import cases
from headwise.conformance.check import check
from headwise.errors import ArgumentError
from tests.conformance.check import hiding, strangers


@pytest.mark.parametrize("name", hiding.WRONG)
def test_a_fault_in_one_corner_is_found(plain, name):
    before = torch.get_default_dtype()
    report = check(hiding.WRONG[name], shrinking=0, stop_at_first=True)
    assert [failure for failure in report.failures if failure.invariant != "large_scores_are_stable"], f"{name} passed"
    assert torch.get_default_dtype() == before


def test_the_same_without_the_fault_passes(plain):
    report = check(hiding.attention(), shrinking=0)
    assert report.passed, str(report)


@pytest.mark.parametrize("module", [hiding.PaddingOfTheFirst, hiding.ShortBuffer])
def test_a_module_that_is_wrong_in_one_corner(plain, module):
    assert not check(module(), shrinking=0, stop_at_first=True).passed


@pytest.mark.parametrize("module", [hiding.Layer, hiding.Padded, hiding.Dropping, hiding.Cross, hiding.Turned])
def test_honest_modules(plain, module):
    if module is hiding.Layer:
        module.forward = lambda self, x: self.attended(x, None)
    report = check(module(), shrinking=0)
    assert report.passed, str(report)


def test_a_module_with_norms_is_refused():
    said = "Normed contains q_norm, which plain multi-head attention does not have. Check the function that computes its attention."
    with pytest.raises(ArgumentError, match=re.escape(said)):
        resolve(hiding.Normed())


class OfTorch(nn.MultiheadAttention):
    """A class of somebody's that is torch's below."""

    def __init__(self, **words):
        super().__init__(16, 4, batch_first=True, **words)


def test_what_is_made_of_torchs_module_is_asked_as_it_is():
    (call, layer) = resolve(OfTorch())
    assert (call.subject.level, layer.subject.level) == ("call", "layer")
    with pytest.raises(ArgumentError, match="nn.MultiheadAttention is checked with keys and values of one width and without added keys, got add_bias_kv=True"):
        resolve(OfTorch(add_bias_kv=True))
    with pytest.raises(ArgumentError, match="kdim=12, vdim=20"):
        resolve(OfTorch(kdim=12, vdim=20))


def test_random_numbers_that_are_drawn_are_noted(plain):
    for trace in (lambda: torch.rand(1), lambda: torch.manual_seed(0)):
        report = check(hiding.leaving(trace), shrinking=0)
        assert [finding.invariant for finding in report.findings if finding.severity == "convention"] == ["draws_random_numbers"]


def test_a_check_leaves_random_numbers_as_they_were(plain):
    before = torch.get_rng_state()
    check(hiding.attention(), shrinking=0)
    assert torch.equal(before, torch.get_rng_state())


def half_only(query, key, value, *, causal=False, mask=None):
    if query.dtype not in (torch.float16, torch.bfloat16):
        raise NotImplementedError("half precision only.")
    return strangers.correct(query.float(), key.float(), value.float(), causal=causal, mask=mask).to(query.dtype)


def dead_rows_by_causality_only(query, key, value, *, causal=False):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(key.shape[2] - query.shape[2])
    return (scores.masked_fill(~seen, -torch.inf) if causal else scores).softmax(-1) @ value


def test_what_is_meant_is_found_in_half_precision_and_without_a_mask(plain):
    told = {stated.name: stated.value for found in resolve(half_only) for stated in found.conventions}
    assert told["dead_row"] == "zero"
    assert told["hidden_nonfinite"] in ("absent", "leaks")
    told = {stated.name: stated.value for found in resolve(dead_rows_by_causality_only) for stated in found.conventions}
    assert told["dead_row"] == "nan"


def test_cases_are_cut_to_what_a_subject_knows_and_means():
    for case in cases()[::4]:
        case.check(hides_where_true)


def hides_where_true(query, key, value, *, causal=False, mask=None):
    return strangers.correct(query, key, value, causal=causal, mask=None if mask is None else ~mask)


def raises_in_colour(query, key, value, *, scale=None):
    if query.shape[2] == 1:
        raise ValueError("\x1b[31mred\ud800\x00")
    return strangers.correct(query, key, value, scale=scale)


def test_what_a_stranger_says_fits_on_any_page(plain):
    from xml.etree import ElementTree

    report = check(raises_in_colour, shrinking=0)
    assert "\\x1b[31mred\\ud800\\x00" in str(report)
    str(report).encode()
    report.to_html().encode()
    ElementTree.fromstring(report.to_junit())
    assert printable("plain") == "plain"


def test_a_device_that_is_not_there(plain):
    with pytest.raises(ArgumentError, match="device must be one that torch finds here, got 'nosuch'"):
        check(hiding.attention(), device="nosuch")


def test_a_module_whose_import_raises_says_what(plain, tmp_path, monkeypatch):
    (tmp_path / "broken_attention.py").write_text("def attend(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ArgumentError, match="got 'broken_attention' whose import raises SyntaxError"):
        check("broken_attention:attend")


def test_a_pasted_test_of_a_layer_runs(plain):
    report = check(MergedHere(), shrinking=0)
    failure = next(failure for failure in report.failures if failure.invariant == "golden_values")
    names: dict = {}
    exec(compile(failure.test, "pasted", "exec"), names)
    with pytest.raises(AssertionError, match="further off than rounding explains"):
        next(function for name, function in names.items() if name.startswith("test_"))()


class MergedHere(hiding.Layer):
    """Without a scale, so that numbers worked out on paper are others."""

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in (self.q_proj(x), self.k_proj(x), self.v_proj(x)))
        return self.o_proj(strangers.correct(q, k, v, scale=1.0).transpose(1, 2).flatten(2))


def right_with_gradients_only(query, key, value, *, scale=None):
    output = strangers.correct(query, key, value, scale=scale)
    return output if torch.is_grad_enabled() else 1.01 * output


def test_a_pasted_test_calls_as_it_was_called(plain):
    (failure, *_) = [failure for failure in check(right_with_gradients_only, shrinking=1).failures if "output = right_with_gradients_only" in failure.test]
    assert "with torch.no_grad():" in failure.test
    names: dict = {}
    exec(compile(failure.test, "pasted", "exec"), names)
    with pytest.raises(AssertionError):
        next(function for name, function in names.items() if name.startswith("test_"))()


def a_little_too_large(query, key, value, *, mask=None):
    return strangers.correct(query, key, value, mask=mask) * 1.0001


def test_a_fault_is_not_likened_to_what_is_blind_to_it(plain):
    report = check(a_little_too_large, shrinking=0)
    assert not report.passed
    assert "first_head_mask_for_all_heads" not in {failure.diagnosis.mutation for failure in report.failures if failure.diagnosis is not None}


def without_windows(query, key, value, *, causal=False, window=None, softcap=None):
    if window is not None:
        raise ValueError("no windows here.")
    if softcap is not None:
        raise KeyError("softcap")
    return strangers.correct(query, key, value, causal=causal)


def test_an_option_that_is_refused_at_once_is_not_tested_and_one_that_breaks_is_a_fault(plain):
    report = check(without_windows, shrinking=0)
    assert report.not_tested["window"] == "ValueError: no windows here."
    assert [failure.invariant for failure in report.failures] == ["raises"]
    assert "KeyError" in report.failures[0].finding.why


def padded(query, key, value, key_padding_mask=None):
    """Padding [B, S], as modules have it: a function's masks are [B, H, T, S], so that it is not asked for."""
    return strangers.correct(query, key, value, mask=None if key_padding_mask is None else ~key_padding_mask[:, None, None])


def test_padding_of_a_function_is_not_taken_for_its_mask(plain):
    report = check(padded, shrinking=0)
    assert report.passed, str(report)
    assert "mask" in report.not_tested


def test_a_gradient_alone_is_told_as_such():
    from headwise.conformance.answer import CallMode
    from headwise.conformance.report.report_text import call_description

    assert call_description(CallMode(upstream=torch.ones(1), only_grad_of="key")) == "for the gradient of key only"
    assert call_description(CallMode(upstream=torch.ones(1))) == "for gradients"

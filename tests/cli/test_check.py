"""`headwise check`: exit codes, and what is said of a wrong call."""

import json

import pytest

from headwise.cli.app import main

SDPA = "torch.nn.functional:scaled_dot_product_attention"


def test_a_fault_is_exit_code_1_and_shown_with_its_smallest_input(plain, capsys, tmp_path):
    page, suite = tmp_path / "report.html", tmp_path / "report.xml"
    assert main(["check", SDPA, "--level", "quick", "--json", "--html", str(page), "--junit", str(suite)]) == 1
    found = json.loads(capsys.readouterr().out)
    (failure,) = [failure for failure in found["failures"] if failure["law"] == "explicit_scale"]
    assert "causal=True" in failure["problem"]
    assert failure["looks_like"]["attack"] == "mask_before_scale"
    assert page.read_text().startswith("<!doctype html>")
    assert "explicit_scale" in suite.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["torch.nn.functional:scaled_dot_product_atention"], "Did you mean scaled_dot_product_attention"),
        (["torch.nn.functionall:softmax"], "subject must name a module that can be imported, got 'torch.nn.functionall'. Did you mean functional"),
        (["torch_sdap"], "subject must be package.module:attribute or a peer, got 'torch_sdap'. Did you mean torch_sdpa"),
        ([SDPA, "--arg", "heads"], "arg must be NAME=VALUE, got 'heads'"),
        ([SDPA, "--dtype", "int8"], "dtype must be float32, float64, bfloat16 or float16, got 'int8'"),
        ([SDPA, "--level", "slow"], "level must be 'quick' or 'full', got 'slow'"),
        (["torch.nn:MultiheadAttention", "--arg", "width=3"], "arguments must be those of nn.MultiheadAttention"),
    ],
)
def test_a_wrong_call_is_exit_code_2_and_says_what_there_is(plain, capsys, words, message):
    assert main(["check", *words]) == 2
    assert message in capsys.readouterr().err

"""Statistics of a padded text are those of the text alone, on either side, also where a model computes its attention or its mask itself."""

from inspect import signature

import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM

import headwise as hw
from benchmarks.tiny import build, known
from headwise.attention.call import Call
from headwise.errors import UnseenAttention
from headwise.models.capture.attention_request import AttentionRequest
from headwise.models.capture.padding import with_padding
from headwise.models.runs import statistics_collector
from tests.models.tiny import build as build_family
from tests.models.tiny import drawn

NAMES = ("first", "previous", "self", "distance", "received", "entropy")
TEXT, PADDING, DECODED = 9, 5, 4
OWN = ["bloom", "falcon", "mpt", "gpt_neo", "deberta-v2"]  # which compute their attention, or build their mask, themselves
QUICK = [*OWN, "bert", "gpt2", "llama", "t5", "bart", "xlm", "xlnet", "deberta", "longt5", "gptj", "opt", "mpnet"]


def takes_a_mask(name):
    entry = known()[name]
    return "missing" not in entry and "input_ids" in entry.get("inputs", {})


def padded(hf, ids, side):
    """The ids with padding on one side, and their mask."""
    filler = torch.full((ids.shape[0], PADDING), int(getattr(hf.config, "pad_token_id", None) or 0))
    mask = torch.cat([torch.zeros_like(filler), torch.ones_like(ids)] if side == "left" else [torch.ones_like(ids), torch.zeros_like(filler)], 1)
    return torch.cat([filler, ids] if side == "left" else [ids, filler], 1), mask


def both(hf, side, decoder=False):
    """The inputs of a text alone and padded, and where its tokens are then."""
    ids = torch.randint(5, 90, (2, TEXT), generator=torch.Generator().manual_seed(3))
    longer, mask = padded(hf, ids, side)
    accepted = signature(hf.forward).parameters
    alone, given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, {"input_ids": longer, "attention_mask": mask}
    if "position_ids" in accepted and not decoder:
        alone["position_ids"], given["position_ids"] = torch.arange(TEXT).expand(2, -1), (mask.cumsum(-1) - 1).clamp(min=0)
    if decoder:
        decoded = torch.randint(5, 90, (2, DECODED), generator=torch.Generator().manual_seed(4))
        alone["decoder_input_ids"] = given["decoder_input_ids"] = decoded
    return alone, given, slice(PADDING, None) if side == "left" else slice(0, TEXT)


def check(hf, side, decoder=False):
    """Whether the model itself gives the text's tokens the same outputs padded as alone, in which case so must the statistics be."""
    alone, given, tokens = both(hf, side, decoder)
    with torch.no_grad():
        try:
            one, other = hf(**alone)[0], hf(**given)[0]
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            return None  # it takes no text alone, or none of this length
    if one.dim() != 3 or other.shape[1] not in (one.shape[1], one.shape[1] + PADDING):
        return None
    other = other[:, tokens] if other.shape[1] == one.shape[1] + PADDING else other
    if not torch.allclose(one, other, rtol=1e-3, atol=1e-3):
        return None  # positions count from the padding, say
    model = hw.open_model(hf)
    run, right = model.run(given, statistics=NAMES), model.run(alone, statistics=NAMES)
    assert run.proof.passed, [str(verdict) for verdict in run.proof.verdicts.values() if verdict.passed is False]
    compared = 0
    for part in right.parts:
        for name in NAMES:
            got, expected = (torch.from_numpy(one.parts[part][name].values) for one in (run, right))
            got = got[..., tokens] if got.shape[-1] == expected.shape[-1] + PADDING else got
            if expected.shape[-1] in (TEXT, DECODED) and got.shape == expected.shape:  # not the rows of blocks or of pooled tokens
                torch.testing.assert_close(got, expected, rtol=2e-3, atol=2e-3, equal_nan=True, msg=lambda text, at=(part, name): f"{at}: {text}")
                compared += 1
    return compared


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", QUICK)
def test_a_padded_text_has_the_statistics_of_the_text_alone(name, side):
    hf = build(name)[0]
    compared = check(hf, side, bool(hf.config.is_encoder_decoder))
    if compared is None:
        assert (name, side) not in {(own, side) for own in OWN}
        pytest.skip(f"{name} itself gives other outputs with padding on the {side}")
    assert compared >= len(NAMES)


# Their pooled output is that of a token of padding, whose row sees nothing: the model spreads it over all keys, a run leaves it empty, and the proof says so.
POOLS_PADDING = pytest.mark.xfail(strict=True, reason="a row that sees nothing is uniform in the model and empty in a run", raises=AssertionError)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", [name for name in known() if takes_a_mask(name) and name not in QUICK])
def test_every_type_that_takes_a_mask(name, side, request):
    if side == "left" and name in ("clip_text_model", "clipseg_text_model", "metaclip_2_text_model"):
        request.applymarker(POOLS_PADDING)
    hf = build(name)[0]
    if "attention_mask" not in signature(hf.forward).parameters:
        pytest.skip(f"{name} takes no mask")
    try:
        compared = check(hf, side, bool(hf.config.is_encoder_decoder))
    except UnseenAttention as refusal:
        pytest.skip(f"{name} is refused: {refusal}")
    if compared is None:
        pytest.skip(f"{name} itself gives other outputs with padding on the {side}")


def test_the_first_token_behind_left_padding():
    hf = drawn(BloomForCausalLM(BloomConfig(vocab_size=99, hidden_size=32, n_layer=1, n_head=4)))
    ids, mask = torch.randint(0, 99, (1, 12), generator=torch.Generator().manual_seed(0)), torch.ones(1, 12, dtype=torch.int64)
    mask[:, :5] = 0
    model = hw.open_model(hf)
    run, alone = model.run({"input_ids": ids, "attention_mask": mask}), model.run(ids[:, 5:])
    got, right = (torch.from_numpy(one.statistics["first"].values) for one in (run, alone))
    torch.testing.assert_close(got[..., 5:], right, rtol=1e-4, atol=1e-5)
    assert float(right[0, 0, 0, 0]) == pytest.approx(1)
    assert run.statistics["padding"].values.tolist() == [[True] * 5 + [False] * 7]
    assert run.proof.passed


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_padded_decoder_does_not_count_in_what_the_encoder_s_tokens_receive(name):
    hf = build_family(name)
    generator = torch.Generator().manual_seed(5)
    ids, decoded = (torch.randint(3, 97, (2, n), generator=generator) for n in (9, 6))
    mask = torch.ones_like(decoded)
    mask[:, -2:] = 0
    model = hw.open_model(hf)
    run = model.run({"input_ids": ids, "decoder_input_ids": decoded, "decoder_attention_mask": mask}, statistics=["received"])
    alone = model.run({"input_ids": ids, "decoder_input_ids": decoded[:, :-2]}, statistics=["received"])
    got, right = (torch.from_numpy(one.parts["decoder.cross"]["received"].values) for one in (run, alone))
    torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-4)


def test_received_is_summed_in_blocks(monkeypatch):
    hf, name = build_family("llama"), "received"
    alone, given, tokens = both(hf, "left")
    whole = hw.open_model(hf).run(given, statistics=[name]).statistics[name].values
    monkeypatch.setattr(statistics_collector, "ROWS_AT_ONCE", 4)
    found = hw.open_model(hf).run(given, statistics=[name]).statistics[name].values
    right = hw.open_model(hf).run(alone, statistics=[name]).statistics[name].values
    torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(whole))
    torch.testing.assert_close(torch.from_numpy(found[..., tokens]), torch.from_numpy(right), rtol=1e-4, atol=1e-4)


def request_of(tokens, **call):
    shape = (tokens.shape[0], 2, tokens.shape[1], 3)
    zero = torch.zeros(shape)
    return AttentionRequest(zero, zero, zero, Call(scale=1.0, offset=torch.zeros(shape[0], dtype=torch.int64), **call))


def test_a_mask_counts_only_where_the_call_hides_what_it_hides():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    seen = mask.bool()[:, None, None, :].expand(-1, 1, 5, -1)
    find = lambda request, **inputs: with_padding(request, inputs, "encoder.attention", False, False).padding  # noqa: E731
    assert find(request_of(mask, mask=seen), attention_mask=mask).tolist() == mask.bool().tolist()
    assert find(request_of(mask, bias=torch.zeros(2, 1, 5, 5).masked_fill(~seen, -torch.inf)), attention_mask=mask).tolist() == mask.bool().tolist()
    assert find(request_of(mask), attention_mask=mask) is None  # patches of an image, as many as the text's tokens
    assert find(request_of(mask, mask=seen)) is None
    right = mask.flip(1)
    assert find(request_of(right, causal=True), attention_mask=right).tolist() == right.bool().tolist()  # later keys are hidden anyway
    assert find(request_of(mask, causal=True), attention_mask=mask) is None
    assert find(request_of(mask, mask=seen), attention_mask=torch.zeros_like(mask)) is None

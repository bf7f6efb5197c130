"""Generation with an edit equals one pass with it over the whole text: every edit, every class of cache, padding on the left."""

import pytest
import torch
from transformers import DynamicCache, StaticCache

import headwise as hw
from tests.models.tiny import build, ids

EDITS = {
    "ablate": hw.Ablate(1, 2),
    "scale": hw.Scale(0, 1, 1.7),
    "temperature": hw.Temperature(1, 3, 2.5),
    "tie_heads": hw.TieHeads(1),
    "mask_keys": hw.MaskKeys(0, 1, keys=[0, 8, 10]),
    "mask_keys, another layer": hw.MaskKeys(1, 2, keys=[6, 11]),
}
CACHES = {
    "none": lambda hf: None,
    "dynamic": lambda hf: DynamicCache(),
    "dynamic with windows": lambda hf: DynamicCache(config=hf.config),
    "static": lambda hf: StaticCache(config=hf.config, max_cache_len=32),
}


def decoded(hf, ids, cache, **more):
    """The logits of every token, read one by one behind the first four."""
    if cache is None:
        return hf(ids, use_cache=False, **more).logits
    mask = more.pop("attention_mask", None)
    steps = [ids[:, :4], *ids[:, 4:].split(1, 1)]
    found, read = [], 0
    for step in steps:
        read += step.shape[1]
        given = {} if mask is None else {"attention_mask": mask[:, :read]}
        found.append(hf(step, cache=cache, use_cache=True, **given).logits)
    return torch.cat(found, 1)


@torch.no_grad()
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("family", ["llama", "mistral", "gpt_oss"])
def test_reading_token_by_token_is_reading_at_once(family, edit, cache):
    changes = {} if family == "llama" else {"sliding_window": 5}
    model = hw.open_model(build(family, **changes))
    edited = model.edit(EDITS[edit], mode="run").hf
    text = ids(batch=1, length=15)
    whole = edited(text, use_cache=False).logits
    assert not torch.allclose(whole, model.hf(text, use_cache=False).logits, atol=1e-6), "the edit changes something"
    torch.testing.assert_close(decoded(edited, text, CACHES[cache](edited)), whole, rtol=1e-3, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("edit", EDITS)
def test_padding_before_a_text_moves_no_position(edit):
    edited = hw.open_model(build("llama")).edit(EDITS[edit], mode="run").hf
    text = ids(batch=1, length=12)
    padded = torch.cat([torch.full((1, 4), 5), text], 1)
    mask = torch.cat([torch.zeros(1, 4, dtype=torch.int64), torch.ones_like(text)], 1)
    alone = edited(text).logits
    torch.testing.assert_close(edited(padded, attention_mask=mask).logits[:, 4:], alone, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(decoded(edited, padded, DynamicCache(), attention_mask=mask)[:, 4:], alone, rtol=1e-3, atol=1e-4)

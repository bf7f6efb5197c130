"""A model whose first head looks at the token before, by hand, and whose second looks at all alike."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import headwise as hw
from tests.analysis.toys import tokenizer, vocabulary

WAVES = 8  # positions are as many waves, 16 numbers; tokens are 16 others
LENGTH = 128


def previous() -> "hw.Model":
    """x = [position, token]; q of head 0 is the position turned back by one, k the position: q_p · k_j is largest for j = p − 1."""
    sizes = {"n_embd": 4 * WAVES, "n_head": 2, "n_layer": 1, "n_positions": LENGTH, "n_inner": 8, "vocab_size": len(vocabulary())}
    hf = GPT2LMHeadModel(GPT2Config(**sizes)).eval()
    generator = torch.Generator().manual_seed(0)
    speeds = torch.linspace(0.3, 2.8, WAVES)
    angles = torch.arange(LENGTH)[:, None] * speeds
    with torch.no_grad():
        for x in hf.parameters():
            x.copy_(torch.randn(x.shape, generator=generator) * 0.1)
        hf.transformer.wpe.weight.zero_()
        hf.transformer.wpe.weight[:, : 2 * WAVES] = torch.cat([angles.cos(), angles.sin()], 1)
        hf.transformer.wte.weight[:, : 2 * WAVES] = 0
        block = hf.transformer.h[0]
        block.ln_1.weight.fill_(1)
        block.ln_1.bias.zero_()
        maps, width = block.attn.c_attn.weight, 2 * WAVES
        maps[:, : 4 * width].zero_()  # queries and keys of both heads; head 1's stay 0: it looks at all alike
        block.attn.c_attn.bias.zero_()
        back = torch.zeros(width, width)
        for wave, speed in enumerate(speeds):
            cosine, sine = speed.cos(), speed.sin()
            back[wave, wave], back[WAVES + wave, wave] = cosine, sine  # cos ω(p − 1) = cos ωp · cos ω + sin ωp · sin ω
            back[WAVES + wave, WAVES + wave], back[wave, WAVES + wave] = cosine, -sine
        maps[:width, :width] = 8 * back
        maps[:width, 2 * width : 3 * width] = torch.eye(width)
    return hw.open_model(hf, tokenizer(False))

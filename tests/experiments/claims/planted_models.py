"""Models built by hand: one that copies what followed the last time, one that rests on its first token, and heads made loud, alike or mute."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaForCausalLM

import headwise as hw
from tests.analysis.toys import decoder, tokenizer, vocabulary

WAVES, CODE, LENGTH = 8, 64, 128  # positions are 8 waves, 16 numbers; a token is a code of 64
POSITION, TOKEN, BEFORE = slice(0, 16), slice(16, 80), slice(80, 144)  # of the residual stream: where, what, and what was there one token before
WIDTH = 72  # numbers a head


def bare(layers: int, width: int, heads: int) -> GPT2LMHeadModel:
    """A decoder whose blocks add nothing: every weight is 0, norms are plain."""
    sizes = {"n_embd": width, "n_head": heads, "n_layer": layers, "n_positions": LENGTH, "n_inner": 4, "vocab_size": len(vocabulary())}
    hf = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=1, eos_token_id=2)).eval()
    with torch.no_grad():
        for name, x in hf.named_parameters():
            x.fill_(1.0 if name.endswith("weight") and "ln_" in name else 0.0)
    return hf


def parts(hf: GPT2LMHeadModel, layer: int, head: int, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A head's own W_Q, W_K, W_V [M, D] and W_O [D, M], to be written into."""
    attention = hf.transformer.h[layer].attn
    inside = attention.c_attn.weight.data.unflatten(1, (3, -1, width))[:, :, head]
    return inside[:, 0], inside[:, 1], inside[:, 2], attention.c_proj.weight.data.unflatten(0, (-1, width))[head]


def copying(head: int = 0) -> "hw.Model":
    """Layer 0: the head looks at the token before and writes it down. Layer 1: it looks at whom the current token came before, and writes that token.

    The other head of each layer looks at all alike and writes nothing.
    """
    hf, random = bare(2, 144, 2), torch.Generator().manual_seed(0)
    speeds = torch.linspace(0.3, 2.8, WAVES)
    angles = torch.arange(LENGTH)[:, None] * speeds
    signs = torch.cat([torch.ones(CODE // 2), -torch.ones(CODE // 2)])
    hf.transformer.wpe.weight.data[:, POSITION] = torch.cat([angles.cos(), angles.sin()], 1)
    hf.transformer.wte.weight.data[:, TOKEN] = 0.35 * torch.stack([signs[torch.randperm(CODE, generator=random)] for _ in vocabulary()])
    query, key, value, out = parts(hf, 0, head, WIDTH)
    query[POSITION, :16], key[POSITION, :16] = 4 * turned_back(speeds), torch.eye(16)
    value[TOKEN, :CODE], out[:CODE, BEFORE] = torch.eye(CODE), 0.5 * torch.eye(CODE)
    query, key, value, out = parts(hf, 1, head, WIDTH)
    query[TOKEN, :CODE], key[BEFORE, :CODE] = 6 * torch.eye(CODE), torch.eye(CODE)
    value[TOKEN, :CODE], out[:CODE, TOKEN] = torch.eye(CODE), torch.eye(CODE)
    return hw.open_model(hf, tokenizer(False))


def turned_back(speeds: torch.Tensor) -> torch.Tensor:
    """From the position's waves to those of the position before: cos ω(p − 1) = cos ωp · cos ω + sin ωp · sin ω."""
    back = torch.zeros(2 * WAVES, 2 * WAVES)
    for wave, speed in enumerate(speeds):
        back[wave, wave], back[WAVES + wave, wave] = speed.cos(), speed.sin()
        back[WAVES + wave, WAVES + wave], back[wave, WAVES + wave] = speed.cos(), -speed.sin()
    return back


def resting() -> "hw.Model":
    """Head 0 looks at the first token. There one number is so large that the norm leaves next to nothing of the others: from there it writes nothing.

    From any other token it would write "[PAD]", which no text holds.
    """
    width, flag, word, pad = 24, 0, 1, 2
    hf, random = bare(1, width, 2), torch.Generator().manual_seed(0)
    table = hf.transformer.wte.weight.data
    table[:, 4:] = 0.5 * torch.randn(len(table), width - 4, generator=random)
    table[:, word] = 2.0
    table[:, pad] = 0
    table[3] = 0
    table[3, pad] = 4.0
    hf.transformer.wpe.weight.data[0, flag] = 200.0
    _, key, value, out = parts(hf, 0, 0, width // 2)
    hf.transformer.h[0].attn.c_attn.bias.data[0] = 3.6  # of head 0's query
    key[flag, 0] = 1.0
    value[word, 1], out[1, pad] = 1.0, 3.0
    return hw.open_model(hf, tokenizer(False))


def llama() -> LlamaForCausalLM:
    return decoder().hf


def opened(hf: LlamaForCausalLM) -> "hw.Model":
    return hw.open_model(hf, tokenizer(False))


def output_blocks(hf: LlamaForCausalLM, layer: int) -> torch.Tensor:
    """W_O of each head, [M, H, E], to be written into."""
    return hf.model.layers[layer].self_attn.o_proj.weight.data.unflatten(1, (6, 4))


def loud(head: int) -> "hw.Model":
    """One head of every layer writes six times as much."""
    hf = llama()
    for layer in range(3):
        output_blocks(hf, layer)[:, head] *= 6
    return opened(hf)


def alike() -> "hw.Model":
    """All heads of a layer read the same slices and write through the same block."""
    hf = llama()
    for layer in hf.model.layers:
        for name, heads in (("q_proj", 6), ("k_proj", 2), ("v_proj", 2)):
            rows = getattr(layer.self_attn, name).weight.data.unflatten(0, (heads, 4))
            rows[1:] = rows[:1].clone()
        blocks = layer.self_attn.o_proj.weight.data.unflatten(1, (6, 4))
        blocks[:, 1:] = blocks[:, :1].clone()
    return opened(hf)


def mute(places: list[tuple[int, int]]) -> "hw.Model":
    """W_O throws away what these heads say."""
    hf = llama()
    for layer, head in places:
        output_blocks(hf, layer)[:, head] = 0
    return opened(hf)


def each_its_own() -> "hw.Model":
    """Head h writes into the h-th slice of the output and nowhere else."""
    hf = llama()
    for layer in hf.model.layers:
        square = layer.self_attn.o_proj.weight.data.unflatten(0, (6, 4)).unflatten(2, (6, 4))  # slice, 4, head, 4
        for one in range(6):
            for other in range(6):
                if one != other:
                    square[one, :, other] = 0
    return opened(hf)

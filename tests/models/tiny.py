"""Small random models of many families, made from transformers' own configuration classes.

Weights are large (std 0.5 and up, no bias or sink left at 0), so that attention is far from uniform and dropping any
feature moves the numbers.
"""

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

logging.set_verbosity_error()

VOCABULARY = 97
COMMON = {"hidden_size": 24, "num_attention_heads": 6, "num_hidden_layers": 3, "intermediate_size": 20, "vocab_size": VOCABULARY}
GROUPED = COMMON | {"num_key_value_heads": 2, "head_dim": 4, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


@dataclass(frozen=True)
class Family:
    """How a tiny model is made.

    Attributes:
        sdpa: the family has an sdpa implementation beside eager.
    """

    config: str
    model: str
    settings: dict[str, Any]
    sdpa: bool = True
    decoder: bool = False  # an encoder and a decoder

    def build(self, seed: int = 0, **changes: Any) -> PreTrainedModel:
        config = getattr(transformers, self.config)(**(self.settings | changes))
        torch.manual_seed(seed)
        return drawn(getattr(transformers, self.model)(config), seed)


FAMILIES = {
    "bert": Family("BertConfig", "BertModel", COMMON),
    "gpt2": Family("GPT2Config", "GPT2LMHeadModel", {"n_embd": 24, "n_head": 6, "n_layer": 3, "vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2}),
    "opt": Family("OPTConfig", "OPTForCausalLM", COMMON | {"ffn_dim": 20, "word_embed_proj_dim": 24}),
    "llama": Family("LlamaConfig", "LlamaForCausalLM", GROUPED),
    "mistral": Family("MistralConfig", "MistralForCausalLM", GROUPED | {"sliding_window": 4}),
    "modernbert": Family(
        "ModernBertConfig", "ModernBertModel", COMMON | {"local_attention": 6, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1}
    ),
    "gemma2": Family(
        "Gemma2Config", "Gemma2ForCausalLM", GROUPED | {"sliding_window": 4, "attn_logit_softcapping": 3.0, "query_pre_attn_scalar": 7}, sdpa=False
    ),
    "qwen3": Family("Qwen3Config", "Qwen3ForCausalLM", GROUPED),
    "phi3": Family("Phi3Config", "Phi3ForCausalLM", GROUPED),
    "gpt_oss": Family("GptOssConfig", "GptOssForCausalLM", GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4}, sdpa=False),
    "t5": Family(
        "T5Config",
        "T5ForConditionalGeneration",
        {"d_model": 24, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 6, "vocab_size": VOCABULARY},
        decoder=True,
    ),
    "bart": Family(
        "BartConfig",
        "BartForConditionalGeneration",
        {
            "d_model": 24,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 6,
            "decoder_attention_heads": 6,
            "encoder_ffn_dim": 20,
            "decoder_ffn_dim": 20,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 64,
        },
        decoder=True,
    ),
}


def drawn(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """The model in eval mode with all its weights drawn anew: std 0.5, or what gives a matrix unit gain if that is more."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point():
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
    return model.eval()


def ids(batch: int = 2, length: int = 11, seed: int = 0) -> Tensor:
    return torch.randint(3, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def given(family: Family, seed: int = 0, padding: str | None = None) -> dict[str, Tensor]:
    """Inputs of two rows of 11 tokens; with padding, the second row has 4 tokens of it on that side."""
    found = {"input_ids": ids(seed=seed)}
    if padding is not None:
        mask = torch.ones_like(found["input_ids"])
        mask[1, slice(0, 4) if padding == "left" else slice(-4, None)] = 0
        found["attention_mask"] = mask
    if family.decoder:
        found["decoder_input_ids"] = ids(length=7, seed=seed + 1)
    return found


def build(name: str, seed: int = 0, **changes: Any) -> PreTrainedModel:
    return FAMILIES[name].build(seed, **changes)

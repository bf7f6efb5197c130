"""Tiny random models on disk, with a tokenizer that splits at spaces: what the page shows in tests."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

WORDS = ["[UNK]", "the", "cat", "sat", "on", "mat", "dog", "because", "it", "was", "tired", ".", "<script>alert(1)</script>", "a", "and", "ran"]
TEXT = "the cat sat on the mat because it was tired ."
POSITIONS = 700


def llama() -> PreTrainedModel:
    """A decoder of 3 layers, 6 heads and 2 key heads."""
    sizes = {"hidden_size": 42, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 11, "num_hidden_layers": 3}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=POSITIONS, attention_bias=True, **sizes))


def bert() -> PreTrainedModel:
    """An encoder of 2 layers of 3 heads."""
    sizes = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 8}
    return BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=64, **sizes))


def t5() -> PreTrainedModel:
    """An encoder and a decoder of 2 layers of 3 heads each."""
    sizes = {"d_model": 12, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_heads": 3}
    return T5ForConditionalGeneration(T5Config(vocab_size=len(WORDS), decoder_start_token_id=0, **sizes))


KINDS = {"llama": llama, "bert": bert, "t5": t5}


def write(folder: Path, kind: str, seed: int = 0) -> Path:
    """A checkpoint of large random weights."""
    torch.manual_seed(seed)
    model = KINDS[kind]()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    return folder

"""A tiny trained-looking model on disk, with a tokenizer: what the command line is given."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ["[UNK]", "the", "cat", "sat", "on", "mat", "dog", "because", "it", "was", "tired", "."]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    """A Llama of 3 layers, 6 heads and 2 key heads, of large random weights; at most 24 tokens."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    sizes = {"hidden_size": 42, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 11, "num_hidden_layers": 3}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=24, attention_bias=True, **sizes))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    words(folder)
    return folder


def words(folder: Path) -> None:
    """A tokenizer that splits at spaces."""
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)

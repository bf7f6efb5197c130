"""Small models with tokenizers, and a model whose heads do what they are told: what roles are tried on."""

import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import headwise as hw
from headwise.analysis.roles import random_prose as prose
from tests.models.tiny import drawn


def vocabulary() -> list[str]:
    words = {word for group in (prose.PEOPLE, prose.ANIMALS, prose.THINGS, prose.QUALITIES, prose.DEEDS) for word in group}
    words |= {word for phrase in (*prose.WHEN, *prose.WHERE) for word in phrase.split()}
    words |= {"the", "The", "A", "a", "and", "was", "but", "When", ",", ".", "?", "What", "is", "secret", "number", "of"} | set("0123456789")
    return ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", *sorted(words)]


def tokenizer(specials: bool) -> PreTrainedTokenizerFast:
    """One token a word or mark."""
    words = vocabulary()
    made = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    if specials:
        made.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    names = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def decoder() -> "hw.Model":
    sizes = {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 20, "num_hidden_layers": 3}
    torch.manual_seed(0)
    hf = drawn(LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary()), max_position_embeddings=600, **sizes)))
    return hw.open_model(hf, tokenizer(False))


def encoder() -> "hw.Model":
    sizes = {"hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 20, "num_hidden_layers": 2, "max_position_embeddings": 600}
    torch.manual_seed(0)
    hf = drawn(BertForMaskedLM(BertConfig(vocab_size=len(vocabulary()), **sizes)))
    return hw.open_model(hf, tokenizer(True))

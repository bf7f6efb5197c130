"""Tokens as text, for every kind of vocabulary: characters that several tokens share, bytes that make none, padding."""

from functools import cache

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE, Unigram
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

import headwise as hw
from headwise.models.inputs.token_text import PADDING, byte_alphabet, joined_text, spell, token_texts
from tests.analysis.toys import decoder

TEXT = "東京メトロ 💩"
OF_SMOLLM2 = cache(lambda: hw.open_model("demo:smollm2").tokenizer)


@pytest.fixture(scope="module")
def smollm2():
    """Byte-level BPE."""
    return OF_SMOLLM2()


@pytest.fixture(scope="module")
def minilm():
    """WordPiece."""
    return hw.open_model("demo:minilm").tokenizer


@pytest.fixture(scope="module")
def byte_fallback():
    """BPE over letters with a token for each byte, as Llama 2 and Gemma have it."""
    pieces = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "東"]
    made = Tokenizer(BPE({piece: i for i, piece in enumerate(pieces)}, [("▁", "a")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", bos_token="<s>")


def texts_of(tokenizer, text):
    return token_texts(tokenizer, tokenizer(text)["input_ids"])


def test_byte_level_tokens_name_the_character_that_they_share(smollm2):
    expected = ["東⟨1/2⟩", "東⟨2/2⟩", "京⟨1/2⟩", "京⟨2/2⟩", "メ⟨1/2⟩", "メ⟨2/2⟩", "ト⟨1/2⟩", "ト⟨2/2⟩", "ロ⟨1/2⟩", "ロ⟨2/2⟩"]
    assert texts_of(smollm2, TEXT) == [*expected, " 💩⟨1/3⟩", "💩⟨2/3⟩", "💩⟨3/3⟩"]
    assert texts_of(smollm2, "naïve café\n") == ["na", "ïve", " café", "\n"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="⟨⟩"), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_byte_level_tokens_spell_the_text(text):
    ids = OF_SMOLLM2()(text)["input_ids"]
    known = OF_SMOLLM2().decode(ids, clean_up_tokenization_spaces=False)
    assume(known == text)  # its vocabulary lacks a few bytes
    assert joined_text(token_texts(OF_SMOLLM2(), ids)) == text


def test_bytes_that_make_no_character_are_hexadecimal(smollm2):
    first, second = smollm2("東")["input_ids"]
    assert token_texts(smollm2, [first]) == ["<E6 9D>"]
    assert token_texts(smollm2, [second, second, first, second]) == ["<B1>", "<B1>", "東⟨1/2⟩", "東⟨2/2⟩"]
    end = smollm2.convert_tokens_to_ids("<|im_end|>")
    assert token_texts(smollm2, [first, end, second]) == ["<E6 9D>", "<|im_end|>", "<B1>"]  # an added token stands between them


def test_byte_fallback(byte_fallback):
    assert texts_of(byte_fallback, "東 a京b") == ["東", " a", "京⟨1/3⟩", "京⟨2/3⟩", "京⟨3/3⟩", "b"]
    byte = byte_fallback.convert_tokens_to_ids("<0xE6>")
    assert token_texts(byte_fallback, [byte, 1, byte, byte]) == ["<E6>", "<s>", "<E6>", "<E6>"]
    line = byte_fallback.convert_tokens_to_ids("<0x0A>")
    assert token_texts(byte_fallback, [line]) == ["\n"]


def test_word_pieces_keep_their_sign(minilm):
    assert texts_of(minilm, TEXT) == ["[CLS]", "東", "京", "メ", "##ト", "##ロ", "[UNK]", "[SEP]"]


def test_unigram_pieces_show_their_space():
    made = Tokenizer(Unigram([("<unk>", 0.0), ("▁the", -1.0), ("▁", -4.0), ("cat", -2.0), ("東", -3.0)], unk_id=0))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
    assert texts_of(tokenizer, "the cat東") == [" the", " ", "cat", "東"]


def test_a_vocabulary_of_bytes():
    assert texts_of(ByT5Tokenizer(), "東 é") == ["東⟨1/3⟩", "東⟨2/3⟩", "東⟨3/3⟩", " ", "é⟨1/2⟩", "é⟨2/2⟩", "</s>"]


def test_added_tokens_stand_for_their_own_text():
    """In another script, and in letters that a byte-level vocabulary writes bytes with."""
    letters = {letter: i for i, letter in enumerate(byte_alphabet())}
    made = Tokenizer(BPE(letters, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made)
    tokenizer.add_tokens([AddedToken("<｜begin▁of｜>", special=True), AddedToken("æĿ", special=True)])
    assert texts_of(tokenizer, "<｜begin▁of｜>a\ufffd") == ["<｜begin▁of｜>", "a", "\ufffd⟨1/3⟩", "\ufffd⟨2/3⟩", "\ufffd⟨3/3⟩"]
    assert token_texts(tokenizer, [tokenizer.convert_tokens_to_ids("æĿ")]) == ["æĿ"]


class Unknown:
    """A tokenizer in plain Python, whose vocabulary writes bytes in a way of its own."""

    def convert_ids_to_tokens(self, ids):
        return [f"b{token}" for token in ids] if isinstance(ids, list) else f"b{ids}"

    def decode(self, ids, **options):
        return bytes(ids).decode(errors="replace")


def test_bytes_written_in_an_unknown_way_are_decoded_together():
    assert token_texts(Unknown(), [97, *"é".encode(), 98, *"東".encode(), 0xE6]) == ["a", "é⟨1/2⟩", "é⟨2/2⟩", "b", "東⟨1/3⟩", "東⟨2/3⟩", "東⟨3/3⟩", "b230"]


def test_a_token_may_end_one_character_and_begin_the_next():
    (a, b), (c, d) = "é".encode(), "ß".encode()
    assert spell([bytes([a]), bytes([b, c]), bytes([d])]) == ["é⟨1/2⟩", "é⟨2/2⟩ß⟨1/2⟩", "ß⟨2/2⟩"]
    assert spell([b"x\xff\xfe", b"\xc0y", b""]) == ["x<FF FE>", "<C0>y", ""]


@given(st.lists(st.binary(max_size=5), max_size=12))
@settings(deadline=None)
def test_any_bytes_are_written(pieces):
    texts = spell(pieces)
    assert len(texts) == len(pieces)
    assert all(bool(text) == bool(piece) for text, piece in zip(texts, pieces, strict=True))


def test_padding_is_shown_as_padding():
    model = decoder()
    run = model.run(["The cat was a secret .", "The cat"])
    assert run.tokens == [["The", "cat", "was", "a", "secret", "."], ["The", "cat", *[PADDING] * 4]]
    assert run.statistics["token"].values[1].tolist() == run.tokens[1]


def test_ids_without_a_tokenizer_and_beyond_the_vocabulary(smollm2):
    assert token_texts(None, torch.tensor([3, 5]).tolist()) == ["3", "5"]
    assert token_texts(smollm2, [smollm2.vocab_size + 100_000]) == [str(smollm2.vocab_size + 100_000)]
    assert token_texts(smollm2, []) == []

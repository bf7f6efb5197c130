"""How tokens are written for people to read: the one function behind the tokens in the terminal, on the page, in figures and in files.

A token that holds only part of a character shows that character and which part of it; bytes that make no character are shown in hexadecimal:

    东⟨1/2⟩ 东⟨2/2⟩       two tokens that share the three bytes of one character
    <E6 9D>              bytes that are no valid UTF-8
    ⟨pad⟩                padding: a position that the attention mask excludes
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import Any

PADDING = "⟨pad⟩"
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # how byte-fallback vocabularies write one byte
PART = re.compile(r"(.)⟨(\d+)/\d+⟩", re.DOTALL)
UNKNOWN = "\ufffd"


def token_texts(tokenizer: Any, ids: Sequence[int], real: Sequence[bool] | None = None) -> list[str]:
    """The text of each token of one sequence, with the space before it where it has one.

    Args:
        tokenizer: a transformers tokenizer; without one, the ids are shown.
        ids: the token ids of one row.
        real: False where the attention mask marks padding; no padding if absent.

    Example:
        >>> token_texts(None, [17, 4])
        ['17', '4']
    """
    found = [str(token) for token in ids] if tokenizer is None else _texts(tokenizer, list(ids))
    if real is None:
        return found
    return [text if keep else PADDING for text, keep in zip(found, real, strict=True)]


def joined_text(tokens: Sequence[str]) -> str:
    """The text that these tokens spell: characters shared by several tokens once, padding left out.

    Example:
        >>> joined_text(["a", " 东⟨1/2⟩", "东⟨2/2⟩", "⟨pad⟩"])
        'a 东'
    """
    text = "".join(token for token in tokens if token != PADDING)
    return PART.sub(lambda part: part[1] if part[2] == "1" else "", text)


def _texts(tokenizer: Any, ids: list[int]) -> list[str]:
    """Bytes where the vocabulary has them, decoded together with their neighbours; the decoded token everywhere else."""
    steps = tokenizer.convert_ids_to_tokens(ids)
    bytes_of = _bytes_of(tokenizer, dict(zip(ids, steps, strict=True)))
    decoded = {token: _decoded(tokenizer, token, step) for token, step in zip(ids, steps, strict=True) if token not in bytes_of}
    found: list[str] = []
    for of_bytes, some in groupby(ids, lambda token: token in bytes_of):
        if of_bytes:
            found += spell([bytes_of[token] for token in some])
        else:
            found += _parts_by_decoding(tokenizer, list(some), decoded)
    return found


def spell(pieces: Sequence[bytes]) -> list[str]:
    """Write consecutive pieces of a UTF-8 text, so that a character split between pieces is named in each of them.

    Example:
        >>> spell(["é".encode()[:1], "é".encode()[1:] + b"!"]), spell([b"a", b"\\xe6\\x9d"])
        (['é⟨1/2⟩', 'é⟨2/2⟩!'], ['a', '<E6 9D>'])
    """
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    spans = list(pairwise(ends))
    written: list[list[str]] = [[] for _ in pieces]
    invalid: list[list[str]] = [[] for _ in pieces]
    for first, last, character in _characters(b"".join(pieces)):
        sharing = [number for number, (start, stop) in enumerate(spans) if start < last and stop > first]
        if character is None:
            invalid[sharing[0]].append(f"{b''.join(pieces)[first]:02X}")
            continue
        for place, number in enumerate(sharing, start=1):
            _flush(written[number], invalid[number])
            written[number].append(character if len(sharing) == 1 else f"{character}⟨{place}/{len(sharing)}⟩")
    for texts, bytes_ in zip(written, invalid, strict=True):
        _flush(texts, bytes_)
    return ["".join(texts) for texts in written]


def _flush(texts: list[str], invalid: list[str]) -> None:
    """Write the invalid bytes that were met before a character."""
    if invalid:
        texts.append(f"<{' '.join(invalid)}>")
        invalid.clear()


def _characters(text: bytes) -> Iterator[tuple[int, int, str | None]]:
    """Each character with the bytes it covers, from `first` up to `last`; None for a byte that belongs to no character."""
    place = 0
    while place < len(text):
        lead = text[place]
        length = 1 if lead < 0x80 else 2 if 0xC0 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if lead >= 0xF0 else 1
        try:
            character = text[place : place + length].decode()
        except UnicodeDecodeError:
            character, length = None, 1
        yield place, place + length, character
        place += length


def _bytes_of(tokenizer: Any, steps: Mapping[int, str | None]) -> dict[int, bytes]:
    """The bytes of each token that stands for bytes, in a byte-level or byte-fallback vocabulary; added tokens stand for their own text."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    alphabet = _alphabet(tokenizer)
    found = {}
    for token, step in steps.items():
        if not step or token in added:
            continue
        byte = BYTE.fullmatch(step)
        if alphabet is not None and all(letter in alphabet for letter in step):
            found[token] = bytes(alphabet[letter] for letter in step)
        elif alphabet is None and byte is not None:
            found[token] = bytes([int(byte[1], 16)])
    return found


def _alphabet(tokenizer: Any) -> Mapping[str, int] | None:
    """From letters of the vocabulary to bytes, if it is a byte-level one."""
    own = getattr(tokenizer, "byte_decoder", None)  # of tokenizers in plain Python
    if isinstance(own, Mapping):
        return {str(letter): int(byte) for letter, byte in own.items()}
    if hasattr(tokenizer, "_utf_vocab_size"):  # ByT5, Perceiver: the vocabulary is the bytes themselves
        return {chr(byte): byte for byte in range(256)}
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    return byte_alphabet() if decoder is not None and _is_byte_level(json.loads(decoder.__getstate__())) else None


def _is_byte_level(decoder: Mapping[str, Any]) -> bool:
    return decoder.get("type") == "ByteLevel" or any(_is_byte_level(one) for one in decoder.get("decoders", ()))


@cache
def byte_alphabet() -> Mapping[str, int]:
    """The letters by which byte-level BPE writes bytes: printable Latin-1 as it is, the others from U+0100 on.

    References:
        Radford et al. 2019, bytes_to_unicode in the code of GPT-2.

    Example:
        >>> byte_alphabet()["Ġ"], byte_alphabet()["æ"], len(byte_alphabet())
        (32, 230, 256)
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable}, **{chr(256 + number): byte for number, byte in enumerate(others)}}


def _decoded(tokenizer: Any, token: int, step: str | None) -> str:
    if step is None:
        return str(token)
    if set(step) == {"▁"}:
        return " " * len(step)
    text = tokenizer.decode([token], clean_up_tokenization_spaces=False)
    if not text:
        return step
    return f" {text}" if step.startswith("▁") and not text.startswith(" ") else text


def _parts_by_decoding(tokenizer: Any, ids: list[int], decoded: Mapping[int, str]) -> list[str]:
    """Decode tokens that mean nothing alone together with the next ones: for vocabularies of bytes that are written in an unknown way."""
    found = [decoded[token] for token in ids]
    start = 0
    while start < len(ids):
        if UNKNOWN not in found[start]:
            start += 1
            continue
        stop, text = _whole_character(tokenizer, ids, start)
        if text:
            found[start:stop] = [f"{text}⟨{place}/{stop - start}⟩" for place in range(1, stop - start + 1)]
        else:
            found[start] = str(tokenizer.convert_ids_to_tokens(ids[start]))
        start = stop
    return found


def _whole_character(tokenizer: Any, ids: list[int], start: int) -> tuple[int, str]:
    """The first few tokens from `start` on that decode to text: where they end, and the text; "" if none do."""
    for stop in range(start + 2, min(start + 4, len(ids)) + 1):
        text = tokenizer.decode(ids[start:stop], clean_up_tokenization_spaces=False)
        if text and UNKNOWN not in text:
            return stop, text
    return start + 1, ""

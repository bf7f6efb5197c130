"""Pairs that belong together, for the role `alignment`: atoms on both sides of a reaction, and words with the sound of them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.roles.corpus import AlignedPairs
from headwise.analysis.roles.sentences import read_file
from headwise.analysis.roles.word_alignment import tokens_of
from headwise.axes import Float, Tensor
from headwise.errors import ArgumentError, ModelError

if TYPE_CHECKING:
    from headwise.models.model import Model

MAPPED = re.compile(r"\[([^\]]*?):(\d+)\]")
ORGANIC = re.compile(r"^(?:(?:Br|Cl|[BCNOPSFI])(?:H\d?)?|[bcnops]|cH)$")  # what needs no brackets; [nH] does
ATOM = re.compile(r"\[[^\]]+\]|Br|Cl|[BCNOPSFIbcnops]")
PARTS = 2  # a frame of Whisper's encoder is made of so many frames of its spectrogram


def read_reactions(model: "Model", path: str | Path) -> list[AlignedPairs]:
    """Mapped reactions, one a line: `[CH3:1][OH:2].[Na:3]>>...`: what asks is each product's atom, what is right the reactants' atom of its number.

    The model reads the reaction without the numbers.

    Raises:
        ArgumentError: a line that is no mapped reaction; its number is told.
    """
    lines = read_file(Path(path)).splitlines()
    return [reaction(model, line.split()[0], f"line {place} of {str(path)!r}") for place, line in enumerate(lines, start=1) if line.strip()]


def reaction(model: "Model", smiles: str, where: str = "reaction") -> AlignedPairs:
    """One mapped reaction."""
    if smiles.count(">>") != 1:
        raise ArgumentError(f"{where} must have reactants >> products, got {smiles[:60]!r}. Mend it.")
    plain, atoms = _without_numbers(smiles)
    arrow = plain.index(">>")
    ids, units = tokens_of(model.tokenizer, plain, [span for span, _ in atoms])
    before = {number: tokens for ((start, _), number), tokens in zip(atoms, units, strict=True) if start < arrow and number}
    after = [(number, tokens) for ((start, _), number), tokens in zip(atoms, units, strict=True) if start > arrow and number]
    pairs = [(tokens, before[number]) for number, tokens in after if number in before]
    if not pairs:
        raise ArgumentError(f"{where} must have atoms of the same number on both sides, got {smiles[:60]!r}. Map its atoms.")
    among = [token for ((start, _), _), tokens in zip(atoms, units, strict=True) if start < arrow for token in tokens]
    return AlignedPairs(torch.tensor([ids]), len(ids), pairs, among, "atom → the same atom before")


def _without_numbers(smiles: str) -> tuple[str, list[tuple[tuple[int, int], str]]]:
    """The reaction as chemists write it without a map, with the place and the number of each atom."""
    plain, atoms, last = "", list[tuple[tuple[int, int], str]](), 0
    for match in ATOM.finditer(smiles):
        plain += smiles[last : match.start()]
        mapped = MAPPED.fullmatch(match[0])
        atom = match[0] if mapped is None else mapped[1]
        written = atom if mapped is None or not ORGANIC.match(atom) else re.sub(r"H\d?$", "", atom)
        written = f"[{written}]" if mapped is not None and not ORGANIC.match(atom) else written
        atoms.append(((len(plain), len(plain) + len(written)), "" if mapped is None else mapped[2]))
        plain += written
        last = match.end()
    return plain + smiles[last:], atoms


def speech(model: "Model", sound: Float[Tensor, " N"], words: Sequence[tuple[str, float, float]], rate: int = 16000) -> AlignedPairs:
    """Speech with the time of each word, for a model like Whisper: what asks is the place that foretells a word, what is right are the frames of its sound.

    Args:
        sound: at `rate` samples a second.
        words: each with its first and its last second, in order.

    Raises:
        ModelError: the model does not listen.
    """
    from transformers import WhisperFeatureExtractor

    config: Any = model.hf.config
    if getattr(config, "num_mel_bins", None) is None or not getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"speech must be for a model that listens and writes, got {type(model.hf).__name__}. Pass pairs of your own.")
    maker = WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    spectrogram = maker(sound.numpy(), sampling_rate=rate, return_tensors="pt")["input_features"]
    text = " " + " ".join(word for word, _, _ in words)
    spans, start = [], 1
    for word, _, _ in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    encoded = model.tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    ids, places = encoded["input_ids"], encoded["offset_mapping"]
    lead = [config.decoder_start_token_id, *(int(x) for x in _no_times(model))]
    seconds = PARTS * maker.hop_length / rate
    frames = spectrogram.shape[-1] // PARTS
    pairs = []
    for (first, behind), (_, begin, end) in zip(spans, words, strict=True):
        tokens = [i for i, (a, b) in enumerate(places) if a < behind and b > first]
        heard = range(int(begin / seconds), min(max(int(end / seconds), int(begin / seconds) + 1), frames))
        pairs.append(([len(lead) - 1 + i for i in tokens], list(heard)))
    given = {"input_features": spectrogram, "decoder_input_ids": torch.tensor([[*lead, *ids]])}
    spoken = range(int(words[-1][2] / seconds) + 1)
    return AlignedPairs(given, frames, pairs, list(spoken), "word → its sound")


def _no_times(model: "Model") -> list[int]:
    """What Whisper is told before it writes text without times."""
    found = model.tokenizer.convert_tokens_to_ids("<|notimestamps|>")
    return [] if found is None or found == model.tokenizer.unk_token_id else [found]

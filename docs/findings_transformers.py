"""What is wrong in transformers' own attention, each shown by its smallest input: a part of docs/findings.md, made from runs."""

from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch import tensor
from transformers import BertConfig, BertModel, FSMTConfig, FSMTForConditionalGeneration, LlamaConfig, LlamaModel

from benchmarks.tiny import build

SMALL = {"vocab_size": 9, "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 8}


def rows(numbers: Any) -> str:
    """Numbers with two digits behind the point."""
    if isinstance(numbers, list):
        return f"[{', '.join(rows(x) for x in numbers)}]"
    return f"{numbers:.2f}"


def grounding_dino() -> Iterator[str]:
    """Two tokens in BERT, as grounding-dino asks it: the first may not see the second."""
    torch.manual_seed(0)
    hf = BertModel(BertConfig(**SMALL, attn_implementation="eager")).eval()
    with torch.no_grad():
        hf.encoder.layer[0].attention.self.query.weight.zero_()  # so that scores are 0
        out = hf(tensor([[3, 4]]), attention_mask=tensor([[[[True, False], [True, True]]]]), output_attentions=True)
    yield "grounding-dino, mm-grounding-dino: eager attention adds its boolean mask"
    yield (
        "The model hands BERT a boolean mask of four axes (True: may be seen), which `eager_attention_forward` adds to the scores: what may be seen gets +1,\n"
        "what is hidden +0 instead of minus infinity. Tokens of other phrases are seen. sdpa reads the same mask rightly."
    )
    yield "BERT of one layer whose scores are all 0, two tokens, mask [[True, False], [True, True]]"
    yield f"first row of weights {rows(out.attentions[0][0, 0, 0].tolist())}"
    yield "[1.00, 0.00]"


def padded_rows() -> Iterator[str]:
    """Two tokens, the first of them padding."""
    torch.manual_seed(0)
    hf = LlamaModel(LlamaConfig(**SMALL, pad_token_id=0, attn_implementation="eager")).eval()
    with torch.no_grad():
        out = hf(tensor([[0, 5]]), attention_mask=tensor([[0, 1]]), output_attentions=True, use_cache=False)
    yield "every causal model, eager: a padding query behind left padding sees all keys alike, later ones too"
    yield (
        "All of its keys are hidden by the lowest float, which is the same for all, so that the softmax is uniform over keys that it must not see.\n"
        "Its numbers reach no real token, but means over rows that do not leave padding out count them. A run gives NaN there."
    )
    yield "Llama of one layer, ids [[0, 5]], attention_mask [[0, 1]]"
    yield f"row of the padding token: {rows(out.attentions[0][0, 0, 0].tolist())}"
    yield "no weight on the later token"


def fsmt() -> Iterator[str]:
    """A decoder that reads three tokens at once with a cache."""
    torch.manual_seed(0)
    sizes = {"d_model": 4, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 1, "decoder_attention_heads": 1}
    vocabularies = {"src_vocab_size": 9, "tgt_vocab_size": 9, "langs": ["en", "de"], "encoder_ffn_dim": 4, "decoder_ffn_dim": 4, "max_position_embeddings": 16}
    hf = FSMTForConditionalGeneration(FSMTConfig(**sizes, **vocabularies)).eval()
    seen = []
    for use_cache in (True, False):
        with torch.no_grad():
            out = hf(tensor([[4, 5, 6]]), decoder_input_ids=tensor([[2, 5, 6]]), output_attentions=True, use_cache=use_cache)
        seen.append(out.decoder_attentions[0][0, 0, 0].tolist())
    yield "fsmt: without a causal mask where it keeps a cache, which is its default"
    yield (
        "`use_cache=True` leaves the causal mask out, as one token at a time needs none; called on a whole text, the decoder sees the future,\n"
        "and `attentions` shows it. A run reads a text with the cache off."
    )
    yield "FSMT of one layer, three tokens for encoder and decoder"
    yield f"first row of the decoder's weights: {rows(seen[0])}"
    yield f"{rows(seen[1])}, which use_cache=False gives"


def tensors_that_are_no_weights() -> Iterator[str]:
    """The tower of Qwen2-VL."""
    hf, given = build("qwen2_vl")
    with torch.no_grad():
        out = hf.model.visual(given["pixel_values"], grid_thw=given["image_grid_thw"], output_attentions=True, return_dict=True)
    found = out.attentions[0]
    yield "Qwen2-VL and its kin: `attentions` of the vision tower are not weights"
    yield (
        "What the tower returns under `attentions` is what its attention gives, one vector a token, and no matrix of queries and keys.\n"
        "`hw.from_attentions` refuses it: its rows do not add up to 1."
    )
    yield "a tower of two layers, one image of 4 x 4 patches"
    yield f"shape {list(found.shape)}, first row adds up to {float(found.reshape(-1, found.shape[-1])[0].sum()):.2f}"
    yield "rows that add up to 1"


def sinks_left_out() -> Iterator[str]:
    """GraniteMoE with sinks."""
    import headwise as hw

    hf, given = build("granite_swa")
    with torch.no_grad():
        out = hf(**given, output_attentions=True)
    run = hw.open_model(hf).run(given)
    shown, used = float(out.attentions[0][0, 0, 0, 0]), float(run.weights(0, 0)[0, 0])
    yield "granite_swa, granitemoe_swa: `attentions` leave the sink out"
    yield "The output is weighted with a sink, the weights that are returned are normalised without it: a head that rests on its sink looks as if it attended."
    yield "a model of two layers, 11 tokens; head 0 of layer 0, first query, first key"
    yield f"weight {shown:.2f}"
    yield f"{used:.2f}, by which the value was multiplied"


FOUND = (grounding_dino, padded_rows, fsmt, tensors_that_are_no_weights, sinks_left_out)


def section() -> str:
    """The part of the page."""
    lines = [
        "## `transformers`, in models",
        "",
        f"What the sweep over all families (docs/families.md) found in transformers {transformers.__version__} itself.",
        "",
    ]
    for found in FOUND:
        title, told, smallest, got, right = found()
        lines += [
            f"### {title}",
            "",
            told,
            "",
            "| | |",
            "| --- | --- |",
            f"| smallest input | {smallest} |",
            f"| it gives | {got} |",
            f"| right is | {right} |",
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(section())

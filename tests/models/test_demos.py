"""How demo models are converted: names, shapes and numbers, on small files of the same form; and what their trained heads are known for."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

import headwise as hw
from headwise.models.loading.demos import anarcii, flan_t5, rxnmapper, whisper

WIDTH, INNER, WORDS = 12, 8, 20


def stored_whisper():
    """Every matrix as CTranslate2 names it, drawn at random."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    found = {"decoder/embeddings/weight": draw(WORDS, WIDTH), "encoder/conv1/weight": draw(WIDTH, 80, 3), "encoder/conv2/weight": draw(WIDTH, WIDTH, 3)}
    found |= {f"encoder/{conv}/bias": draw(WIDTH) for conv in ("conv1", "conv2")}

    def linear(name, out, width):
        found.update({f"{name}/weight": draw(out, width), f"{name}/bias": draw(out)})

    def norm(name):
        found.update({f"{name}/gamma": draw(WIDTH), f"{name}/beta": draw(WIDTH)})

    for side in ("encoder", "decoder"):
        norm(f"{side}/layer_norm")
        found[f"{side}/position_encodings/encodings"] = draw(6, WIDTH)
        for i in range(whisper.LAYERS):
            layer = f"{side}/layer_{i}"
            linear(f"{layer}/self_attention/linear_0", 3 * WIDTH, WIDTH)
            linear(f"{layer}/self_attention/linear_1", WIDTH, WIDTH)
            norm(f"{layer}/self_attention/layer_norm")
            if side == "decoder":
                linear(f"{layer}/attention/linear_0", WIDTH, WIDTH)
                linear(f"{layer}/attention/linear_1", 2 * WIDTH, WIDTH)
                linear(f"{layer}/attention/linear_2", WIDTH, WIDTH)
                norm(f"{layer}/attention/layer_norm")
            linear(f"{layer}/ffn/linear_0", INNER, WIDTH)
            linear(f"{layer}/ffn/linear_1", WIDTH, INNER)
            norm(f"{layer}/ffn/layer_norm")
    return found


def test_whisper_s_joint_matrices_are_put_apart():
    stored = stored_whisper()
    found = dict(whisper._weights(stored))
    sizes = {"d_model": WIDTH, "vocab_size": WORDS, "encoder_layers": whisper.LAYERS, "decoder_layers": whisper.LAYERS, "pad_token_id": 1, "eos_token_id": 1}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER}
    ends = {"max_source_positions": 6, "max_target_positions": 6, "bos_token_id": 1, "decoder_start_token_id": 2}
    hf = WhisperForConditionalGeneration(WhisperConfig(**sizes, **heads, **ends))
    right = {name: x.shape for name, x in hf.state_dict().items() if name != "proj_out.weight"}
    assert {name: x.shape for name, x in found.items()} == right
    whole = stored["decoder/layer_2/self_attention/linear_0/weight"]
    parts = [found[f"model.decoder.layers.2.self_attn.{name}_proj.weight"] for name in "qkv"]
    assert torch.equal(torch.cat(parts), whole)
    both = stored["decoder/layer_1/attention/linear_1/bias"]
    assert torch.equal(found["model.decoder.layers.1.encoder_attn.v_proj.bias"], both[WIDTH:])
    assert "model.decoder.layers.1.encoder_attn.k_proj.bias" not in found


def test_a_quantised_matrix_is_what_its_bytes_stand_for():
    stored = {"w_quantized": np.array([[0, 128], [255, 3]], np.uint8), "w_zero_point": np.uint8(128), "w_scale": np.float32(0.5)}
    assert flan_t5._dequantised(stored, "w").tolist() == [[-64.0, 0.0], [63.5, -62.5]]


def test_a_reaction_is_cut_into_atoms_and_bonds(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "C", "O", "(", ")", "=", ".", ">>", "Cl", "[nH]", "1", "c"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = rxnmapper._tokenizer(tmp_path / "vocab.txt")
    ids = tokenizer("CC(=O)Cl.[nH]1>>c1")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", "C", "C", "(", "=", "O", ")", "Cl", ".", "[nH]", "1", ">>", "c", "1", "[SEP]"]


class Side(torch.nn.Module):
    """An encoder or decoder that remembers what it was asked."""

    def forward(self, *request):
        self.request = request
        return (request[0].float()[..., None], None)


def test_padding_and_the_future_are_hidden_from_anarcii_as_its_package_hides_them():
    encoder, decoder = Side(), Side()
    encoder.forward = lambda sequence, hidden: hidden
    anarcii.Numbering(encoder, decoder)(torch.tensor([[5, 7, 0]]), torch.tensor([[1, 0]]))
    _, said, padding, later, hidden = decoder.request
    assert hidden.tolist() == said.tolist() == [[False, False, True]]
    assert padding.tolist() == [[False, True]]
    assert later.tolist() == [[False, True], [False, False]]


@pytest.mark.skipif(find_spec("rxnmapper") is None, reason="rxnmapper is not installed: pip install --no-deps rxnmapper==0.4.3")
def test_head_10_5_of_rxnmapper_finds_the_atoms_that_a_product_came_from():
    """Nobody trained it to; among the reactants' atoms it looks at one of the same element, each time."""
    run = hw.open_model("demo:rxnmapper").run("CC(=O)Cl.NCC>>CC(=O)NCC")
    assert run.proof.passed, str(run.proof)
    tokens = run.tokens[0]
    arrow = tokens.index(">>")
    before, after = ([i for i in span if tokens[i].isalpha()] for span in (range(1, arrow), range(arrow + 1, len(tokens) - 1)))

    def agrees(head):
        mapped = run.weights(10, head)
        return sum(tokens[before[int(mapped[i, before].argmax())]] == tokens[i] for i in after) / len(after)

    assert agrees(5) == 1
    assert sum(agrees(head) for head in range(8)) / 8 < 0.9

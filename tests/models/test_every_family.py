"""A fixed sample of model types, opened and proved as the sweep over all of them does; `make families` covers the rest."""

import pytest

from benchmarks.families import page
from benchmarks.family import judged
from benchmarks.tiny import build, known

RIGHT = [
    "albert",
    "bart",
    "bert",
    "bloom",
    "clip",
    "cohere2",
    "deberta-v2",
    "deepseek_v3",
    "deepseek_v32",
    "detr",
    "distilbert",
    "electra",
    "falcon",
    "gemma2",
    "gemma3n_text",
    "gemma4_text",
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "gpt_oss",
    "gptj",
    "llama",
    "minimax",
    "mistral",
    "mixtral",
    "modernbert",
    "mpnet",
    "mpt",
    "opt",
    "phi3",
    "qwen2",
    "qwen2_vl",
    "roberta",
    "siglip",
    "t5",
    "wav2vec2",
    "whisper",
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_type_is_right(name):
    found = judged(name)
    assert found["verdict"] == "right", found["reason"]
    assert found["calls"] >= 1


def test_a_norm_over_all_heads_leaves_weights_and_refuses_writes():
    found = judged("bitnet")
    assert found["verdict"] == "right without writes"
    assert "o_proj reads of head 0 depends on other heads too" in found["reason"]


def test_a_model_without_attention_says_so():
    found = judged("mamba")
    assert (found["verdict"], "It has no attention to show" in found["reason"]) == ("not attention", True)


def test_a_gate_between_heads_and_output_is_counted_in():
    found = judged("qwen3_next")
    assert (found["verdict"], found["written"], found["calls"]) == ("right", 1, 1)


def test_attention_that_a_model_computes_itself_is_marked():
    found = judged("bloom")
    assert found["eager"]["matched"] == 2
    assert all("the model computes this attention itself" in note for note in found["notes"])


@pytest.mark.parametrize(("name", "written"), [("qwen3_next", 1), ("gemma3n_text", 3), ("gemma4_text", 2), ("bitnet", 0)])
def test_the_four_that_fool_other_tools(name, written):
    """Their weights are eager's: a gate, shared keys, norms of values, and a norm over all heads, for which writes are refused."""
    found = judged(name)
    assert found["eager"]["matched"] == found["eager"]["attentions"] == found["calls"] > 0
    assert found["eager"]["apart"] < 5e-6
    assert (found["written"] if name != "bitnet" else found["verdict"] != "right without writes") == written
    assert found["verdict"] == ("right without writes" if name == "bitnet" else "right")


def test_one_w_o_for_each_of_two_streams():
    found = judged("prophetnet")
    assert (found["verdict"], found["written"]) == ("right", found["calls"]), found["reason"]


def test_blocks_of_a_text_are_no_cross_attention():
    found = judged("longt5")
    assert "encoder.self" in found["parts"][0] and all("encoder.cross" not in part for part in found["parts"])


def test_residual_streams_that_are_mixed_at_each_token_are_no_attention():
    found = judged("deepseek_v4")
    assert found["verdict"] == "right without writes"
    assert found["eager"]["matched"] == found["calls"] == 2


def test_a_sink_of_each_row_is_honoured():
    found = judged("inkling2_text")
    assert found["verdict"] in ("right", "right without writes"), found["reason"]
    assert found["eager"]["matched"] == 2


def test_a_model_within_a_model_is_built_with_what_it_is_given_there():
    hf, given = build("sam3_mask_decoder")
    assert type(hf).__name__ == "Sam3MaskDecoder"
    assert {"decoder_queries", "backbone_features"} <= set(given)


def test_the_page_has_a_row_for_each_type():
    rows = [
        {"type": "bert", "class": "BertModel", "verdict": "right", "reason": "", "calls": 2},
        {"type": "dinat", "verdict": "not built", "reason": "no natten"},
    ]
    found = page(rows)
    assert "| bert | BertModel | right | 2 |  |" in found
    assert "| dinat |  | not built |  | no natten |" in found


def test_every_type_of_transformers_is_listed():
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    assert set(known()) == set(CONFIG_MAPPING_NAMES)

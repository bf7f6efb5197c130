"""A fixed sample of model types, opened and proved as the sweep over all of them does; `make families` covers the rest."""

import pytest

from benchmarks.families import page
from benchmarks.family import judged
from benchmarks.tiny import known

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

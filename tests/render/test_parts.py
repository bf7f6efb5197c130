"""Models with several kinds of attention, and runs whose heads share key heads: from a run to what is shown."""

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, LlamaConfig, LlamaForCausalLM

from headwise.errors import ArgumentError
from headwise.models.loading.open_model import open_model
from headwise.render.head_view import head_map, head_view, key_tokens
from headwise.render.measure import head_table, measure_name, measures
from headwise.render.overview import overview, part_of, proof_sentence


def drawn(model):
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return open_model(model)


@pytest.fixture(scope="module")
def both():
    """An encoder over 7 tokens and a decoder over 5."""
    sizes = {f"{side}_{what}": count for side in ("encoder", "decoder") for what, count in (("layers", 2), ("attention_heads", 3), ("ffn_dim", 8))}
    model = drawn(BartForConditionalGeneration(BartConfig(vocab_size=20, d_model=12, max_position_embeddings=32, **sizes)))
    return model.run({"input_ids": torch.arange(4, 11)[None], "decoder_input_ids": torch.arange(5, 10)[None]})


@pytest.fixture(scope="module")
def grouped():
    sizes = {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 8, "num_hidden_layers": 2}
    return drawn(LlamaForCausalLM(LlamaConfig(vocab_size=20, **sizes))).run(torch.arange(600)[None] % 20)


def test_every_part_is_shown(both):
    view = overview(both)
    assert list(view.parts) == ["encoder.self", "decoder.self", "decoder.cross"]
    assert [len(part.tokens) for part in view.parts.values()] == [7, 5, 5]
    assert list(overview(both, "decoder.cross").parts) == ["decoder.cross"]


def test_what_has_no_meaning_across_is_no_standout_head(both):
    across = overview(both).parts["decoder.cross"]
    assert {answer.measure: len(answer.heads) for answer in across.standout} == {"max_weight": 3, "first": 3, "previous": 0, "self": 0, "write_share": 3}


def test_of_several_parts_one_must_be_chosen(both):
    with pytest.raises(ArgumentError, match=r"part must be one of encoder\.self, decoder\.self, decoder\.cross in this model, got none\. Choose one\."):
        part_of(both, None)
    with pytest.raises(ArgumentError, match=r"part must be one of .*, got encoder\. Choose one\."):
        overview(both, "encoder")


def test_keys_across_are_the_encoders_tokens(both):
    assert len(key_tokens(both, "decoder.cross")) == 7
    view = head_view(both, "decoder.cross", (1, 2), slice(None), top=2)
    weights = both.weights(1, 2, part="decoder.cross")
    assert [row.keys[0][0] for row in view.rows] == weights.argmax(-1).tolist()
    assert tuple(head_map(both, "decoder.cross", (1, 2)).shape) == (5, 7)


def test_heads_that_share_a_key_head_are_known(both, grouped):
    assert head_table(grouped, "self", "entropy").group == 3
    assert head_table(both, "encoder.self", "entropy").group == 1
    assert grouped.statistics["key_heads"].values.tolist() == [2, 2]


def test_a_long_map_is_one_square_of_largest_weights(grouped):
    square = head_map(grouped, "self", (1, 4))
    assert max(square.shape) <= 256
    assert float(square.max()) == float(grouped.weights(1, 4).max())


def test_rows_of_a_long_text_are_the_first_unless_asked(grouped):
    view = head_view(grouped, "self", (0, 5), slice(None), top=1)
    assert (len(view.rows), view.length) == (64, 600)
    assert [row.query for row in head_view(grouped, "self", (0, 5), slice(300, 600), top=1).rows] == list(range(300, 600))


def test_measures_are_means_that_say_something():
    assert set(measures()) >= {"entropy", "first", "previous", "self", "sink", "write_share"}
    assert not {"peak", "received", "segment"} & set(measures())
    assert measure_name(" Write-Share ") == "write_share"
    with pytest.raises(ArgumentError, match=r"statistic must be one of distance, .*, write_cosine, got 'peak'\. Correct the name\."):
        measure_name("peak")


def test_the_proof_in_a_sentence(both):
    judged = [verdict for verdict in both.proof.verdicts.values() if verdict.passed is not None]
    assert proof_sentence(both.proof).startswith(f"Proved on this run: {len(judged)} of {len(judged)} checks passed; the closest used ")

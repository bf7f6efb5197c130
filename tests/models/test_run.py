"""A run's answers: any rectangle, the writes, within any memory budget, for one part or several."""

import pytest
import torch

import headwise as hw
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from tests.models.tiny import FAMILIES, build, given, ids

SLICES = [(slice(None), slice(None)), (slice(2, 5), slice(1, 9)), (slice(-3, None), slice(0, 4)), (slice(4, 4), slice(0, 3)), (slice(3, 99), slice(0, 99))]


@pytest.mark.parametrize(("rows", "columns"), SLICES)
def test_a_rectangle_is_a_part_of_the_map(rows, columns):
    run = hw.open_model(build("gemma2")).run(given(FAMILIES["gemma2"]))
    whole = run.weights(1, 4, batch=1)
    part = run.weights(1, 4, rows, columns, batch=1)
    torch.testing.assert_close(part, whole[rows, columns], rtol=0, atol=2 * 5e-6)  # each is within 5e-6 of the truth
    assert torch.equal(part == 0, whole[rows, columns] == 0)


def test_a_small_memory_gives_the_same_numbers():
    model, inputs = hw.open_model(build("gemma2")), given(FAMILIES["gemma2"], padding="left")
    all_kept, none_kept = model.run(inputs), model.run(inputs, memory=0)
    one_kept = model.run(inputs, memory=all_kept._store.bytes // 3 + 500)
    assert len(all_kept._store.calls) == 3
    assert len(one_kept._store.calls) == 1
    assert not none_kept._store.calls
    for run in (one_kept, none_kept):
        assert run.statistics.identical(all_kept.statistics)
        for layer in (2, 0, 1):
            assert torch.equal(run.weights(layer, 3).nan_to_num(), all_kept.weights(layer, 3).nan_to_num())
        assert run.writes.identical(all_kept.writes)
        assert torch.equal(run.outputs["logits"], all_kept.outputs["logits"])
        assert run.proof.passed
        assert run._store.bytes <= run._store.budget


def test_what_was_dropped_is_made_again_in_one_pass_for_all(monkeypatch):
    run = hw.open_model(build("llama")).run(given(FAMILIES["llama"]), memory=0)
    again, passes = type(run._forward_pass).rerun, []
    monkeypatch.setattr(type(run._forward_pass), "rerun", lambda self, *a, **k: (passes.append(1), again(self, *a, **k))[1])
    _ = run.writes
    assert len(passes) == 1


def test_a_model_that_was_changed_since_is_noticed():
    model = hw.open_model(build("llama"))
    run = model.run(given(FAMILIES["llama"]), memory=0)
    with torch.no_grad():
        model.hf.model.layers[0].self_attn.q_proj.weight.mul_(1.5)
    with pytest.raises(ModelError, match=r"The model has changed since the run: model.layers.0.self_attn gives other numbers"):
        run.weights(0, 0)
    with pytest.raises(ModelError, match="The model has changed since the run"):
        _ = run.proof


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "mistral"])
def test_a_padded_row_is_as_if_it_stood_alone(name, padding):
    model = hw.open_model(build(name))
    inputs = given(FAMILIES[name], padding=padding)
    if padding == "left" and name != "mistral":
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    real = inputs["attention_mask"][1].bool()
    batch, alone = model.run(inputs), model.run(inputs["input_ids"][1, real])
    for name in alone.statistics:
        got = torch.from_numpy(batch.statistics[name].values[1])[..., real]
        right = torch.from_numpy(alone.statistics[name].values[0])
        if name == "peak":
            got = got - int(inputs["attention_mask"][1].argmax())
            assert (got == right).float().mean() > 0.97  # equals may fall either way
        else:
            torch.testing.assert_close(got, right, rtol=1e-3, atol=1e-4)
    got = torch.from_numpy(batch.writes["norm"].values[1])[..., real]
    torch.testing.assert_close(got, torch.from_numpy(alone.writes["norm"].values[0]), rtol=1e-3, atol=1e-3)


def test_rows_of_padding():
    run = hw.open_model(build("bert")).run(given(FAMILIES["bert"], padding="right"))
    assert run.statistics["padding"].values.sum() == 4
    assert not run.statistics["padding"].values[0].any()
    assert run.weights(0, 0, batch=1)[-4:].isnan().all()
    assert not run.weights(0, 0, batch=1)[:-4].isnan().any()
    assert not run.tile(0, 0, 4, 0, 0, batch=1).isnan().any()
    assert run.writes["norm"].isnull().sum() == 4 * 6 * 3


def test_parts_of_an_encoder_and_a_decoder():
    run = hw.open_model(build("bart")).run(given(FAMILIES["bart"]))
    assert list(run.parts) == ["encoder.self", "decoder.self", "decoder.cross"]
    cross = run.parts["decoder.cross"]
    assert cross.sizes == {"batch": 2, "layer": 2, "head": 6, "query": 7}
    assert cross.attrs["part"] == "decoder.cross"
    assert run.weights(1, 2, part="decoder.cross").shape == (7, 11)
    assert run.statistics_of("encoder.self").sizes["query"] == 11
    assert run.writes_of("decoder.self")["norm"].sizes["layer"] == 2
    message = r"part must be given where there are several, got None. Choose one of \['encoder.self', 'decoder.self', 'decoder.cross'\]"
    for ask in (lambda: run.statistics, lambda: run.writes, lambda: run.weights(0, 0)):
        with pytest.raises(ArgumentError, match=message):
            ask()
    with pytest.raises(ArgumentError, match=r"part must be one of \[.*\], got 'encoder'. Correct the name"):
        run.weights(0, 0, part="encoder")


def test_what_keys_receive_and_what_spans_get():
    labels = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2, 2, -1]] * 2)
    run = hw.open_model(build("bert")).run(ids(), statistics=["received", "segment"], segments=labels)
    found = run.statistics
    assert found["received"].dims == ("batch", "layer", "head", "key")
    assert found["segment"].dims[-1] == "segment"
    whole = run.weights(2, 1)
    assert torch.allclose(torch.from_numpy(found["received"].values[0, 2, 1]), whole.sum(0), atol=1e-5)
    assert torch.allclose(torch.from_numpy(found["segment"].values[0, 2, 1, :, 1]), whole[:, 3:6].sum(-1), atol=1e-5)
    assert found["key_token"].shape == (2, 11)


def test_labels_of_the_statistics_are_their_definitions():
    found = hw.open_model(build("llama")).run(ids(), statistics="entropy").statistics
    assert found["entropy"].attrs["units"] == "nats"
    assert "log" in found["entropy"].attrs["formula"]
    assert found["layer_name"].values.tolist() == [f"model.layers.{i}.self_attn" for i in range(3)]
    assert found["token"].values[0].tolist() == [str(x) for x in ids()[0].tolist()]


def test_a_bias_that_the_model_builds_is_named():
    run = hw.open_model(build("t5")).run(given(FAMILIES["t5"]))
    assert any("its position bias is a tensor that the model built itself" in note for note in run.notes)


def test_a_model_in_bfloat16():
    run = hw.open_model(build("llama").to(torch.bfloat16)).run(ids())
    assert run.proof.passed, str(run.proof)
    assert torch.allclose(run.weights(0, 0).sum(-1), torch.ones(11), atol=1e-5)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda run: run.weights(3, 0), ArgumentError, r"layer must be in 0..2, got 3. Choose one of these"),
        (lambda run: run.weights(-1, 0), ArgumentError, r"layer must be in 0..2, got -1"),
        (lambda run: run.weights(0, 6), ArgumentError, r"head must be in 0..5, got 6"),
        (lambda run: run.weights(0, 0, batch=2), ArgumentError, r"batch must be in 0..1, got 2"),
        (lambda run: run.weights("0", 0), ArgumentTypeError, "layer must be an int, got str"),
        (lambda run: run.weights(True, 0), ArgumentTypeError, "layer must be an int, got bool"),
        (lambda run: run.weights(0, 0, queries=3), ArgumentTypeError, "queries must be a slice without a step, got 3"),
        (lambda run: run.weights(0, 0, keys=slice(0, 8, 2)), ArgumentTypeError, r"keys must be a slice without a step, got slice\(0, 8, 2\)"),
        (lambda run: run.tile(0, 0, 5, 0, 0), ArgumentError, r"level must be in 0..4, got 5"),
        (lambda run: run.tile(0, 0, 4, 1, 0), ArgumentError, r"column must be in 0..0, got 1"),
        (lambda run: run.tile(0, 0, 4, 0, 1), ArgumentError, r"row must be in 0..0, got 1"),
        (lambda run: run.tile(0, 0, 4, 0, 0, pool="sum"), ArgumentError, "pool must be 'max' or 'mean', got 'sum'"),
    ],
)
def test_what_there_is_not(ask, error, message):
    run = hw.open_model(build("llama")).run(given(FAMILIES["llama"]))
    with pytest.raises(error, match=message):
        ask(run)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"statistics": "entropie"}, ArgumentError, "statistics must be 'all' or names among .*, got 'entropie'"),
        ({"memory": "1 parsec"}, ArgumentError, "memory must be bytes or a number with one of .*, got '1 parsec'"),
        ({"memory": 1.5}, ArgumentTypeError, "memory must be bytes or a text like '1GiB', got float"),
        ({"statistics": "segment"}, ArgumentError, "segments and the statistic 'segment' must come together, got segments=None"),
        ({"segments": torch.zeros(2, 11, dtype=torch.int64)}, ArgumentError, "segments and the statistic 'segment' must come together, got segments=given"),
        ({"statistics": "segment", "segments": torch.zeros(2, 11)}, ArgumentTypeError, "segments must be a tensor of ints, got torch.float32"),
        (
            {"statistics": "segment", "segments": torch.zeros(2, 9, dtype=torch.int64)},
            ArgumentError,
            r"segments must have one label a token, \[2, 11\], got \[2, 9\]",
        ),
    ],
)
def test_settings_that_cannot_be_honoured(settings, error, message):
    with pytest.raises(error, match=message):
        hw.open_model(build("llama")).run(ids(), **settings)


def test_segments_of_a_model_with_two_texts():
    with pytest.raises(ArgumentError, match="segments must label the only tokens of a model, got BartForConditionalGeneration"):
        hw.open_model(build("bart")).run(ids(), statistics="segment", segments=torch.zeros(2, 11, dtype=torch.int64))

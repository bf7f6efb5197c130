import numpy as np
import pytest
import torch
from PIL import Image

from headwise.errors import ArgumentError, MissingPackage
from headwise.render.colours import LIGHT
from headwise.render.figure import Caption, check_png, map_figure, save_figure, table_figure
from headwise.render.head_table import HeadTable

CAPTION = Caption("a $title", "a subtitle", "a footnote")


def table(layers, heads, group=1):
    values = tuple(tuple((layer * heads + head) / max(layers * heads - 1, 1) for head in range(heads)) for layer in range(layers))
    return HeadTable("self", "first", "", "nats", tuple(range(layers)), values, group)


def colours(path):
    return {"#{:02x}{:02x}{:02x}".format(*pixel) for pixel in np.unique(np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3), axis=0).tolist()}


def cells(figure):
    """Number by corner, from the words that stand in the cells."""
    return {(int(text.get_position()[0]), int(text.get_position()[1])): text.get_text() for text in figure.axes[0].texts}


def test_every_number_is_drawn_in_its_place(tmp_path):
    figure = table_figure(table(2, 3), CAPTION)
    assert cells(figure) == {(0, 0): "0.00", (1, 0): "0.20", (2, 0): "0.40", (0, 1): "0.60", (1, 1): "0.80", (2, 1): "1.00"}
    save_figure(figure, tmp_path / "a.png")
    assert {LIGHT[0], LIGHT[-1]} <= colours(tmp_path / "a.png")


def test_the_longer_axis_runs_across():
    across, down = cells(table_figure(table(3, 2), CAPTION)), cells(table_figure(table(2, 3), CAPTION))
    assert across[2, 0] == "0.80"
    assert down[2, 0] == "0.40"


def test_missing_heads_are_hatched():
    figure = table_figure(HeadTable("self", "first", "", "", (0,), ((0.5, float("nan")),)), CAPTION)
    assert [patch.get_hatch() for patch in figure.axes[0].patches] == [None, "////"]
    assert cells(figure) == {(0, 0): "0.50"}


def test_captions_are_words_not_formulas():
    assert [text.get_text() for text in table_figure(table(2, 2), CAPTION).texts] == ["a $title", "a subtitle", "a footnote"]


def test_map_shows_weights_and_leaves_the_hidden_blank(tmp_path):
    weights = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    figure = map_figure(weights, ["A$", " b"], ["A$", " b"], CAPTION)
    shown = figure.axes[0].images[0].get_array()
    assert np.ma.getmaskarray(np.ma.masked_invalid(shown)).tolist() == [[False, True], [False, False]]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [r"A\$", "␣b"]
    save_figure(figure, tmp_path / "b.png")
    assert LIGHT[-1] in colours(tmp_path / "b.png")


def test_long_maps_go_without_labels():
    words = [str(place) for place in range(70)]
    assert not map_figure(torch.full((70, 70), 1 / 70), words, words, CAPTION).axes[0].get_yticklabels()


def test_scripts_that_the_font_lacks_are_no_error(tmp_path):
    save_figure(map_figure(torch.ones(1, 1), ["猫"], ["猫"], CAPTION), tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 0


def test_a_picture_is_a_png(tmp_path):
    with pytest.raises(ArgumentError, match=r"png must name a file that ends in \.png, got 'heads\.pdf'\. Correct the ending\."):
        check_png(type(tmp_path)("heads.pdf"))


def test_a_picture_goes_into_a_folder_that_exists(tmp_path):
    with pytest.raises(ArgumentError, match=r"png must name a file in a folder that exists, got '.*heads\.png'\. Make the folder first\."):
        check_png(tmp_path / "nowhere" / "heads.png")


def test_a_picture_needs_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr("headwise.render.figure.find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"matplotlib must be installed for a picture, got none\. Run `pip install 'headwise\[plot\]'`\."):
        check_png(tmp_path / "heads.png")


def test_a_picture_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "heads.png").mkdir()
    with pytest.raises(ArgumentError, match=r"png must name a file that can be written, got '.*heads\.png' \(Is a directory\)\. Choose another place\."):
        save_figure(table_figure(table(1, 1), CAPTION), tmp_path / "heads.png")

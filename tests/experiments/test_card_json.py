import json
import math

import pytest

from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.card_json import card_from_json, card_to_json

CARD = Card(
    "corrected",
    "It holds up to a point.",
    {"loss": Number(1.5, "held-out loss", 1.4, 1.6, "nats", "5.29"), "share": Number(0.5)},
    Plot("line", "heads", "loss", [Series("ours", [1.0, 2.0], [3.0, 4.0], [2.0, 3.0], [4.0, 5.0]), Series("b", [1.0], [2.0])], log_x=True, reference=0.5),
    "Better up to a point.",
    16,
    768,
    "next",
    True,
)


def test_a_card_goes_to_json_and_back():
    assert card_from_json(json.loads(json.dumps(card_to_json(CARD)))) == CARD
    assert card_from_json(card_to_json(Card("kept", "It holds."))) == Card("kept", "It holds.")


def test_what_is_no_number_is_null_and_comes_back_as_none():
    card = Card("inconclusive", "No.", {"x": Number(math.nan, low=-math.inf)})
    written = card_to_json(card)
    assert written["numbers"]["x"]["value"] is None and written["numbers"]["x"]["low"] is None
    back = card_from_json(written)
    assert math.isnan(back.numbers["x"].value) and back.numbers["x"].low is None


def test_what_is_no_card_is_refused():
    with pytest.raises(ValueError, match="maybe"):
        card_from_json({**card_to_json(CARD), "verdict": "maybe"})

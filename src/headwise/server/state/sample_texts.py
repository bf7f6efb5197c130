"""The sample texts of the page, and limits on texts."""

MAX_CHARACTERS = 400_000  # of a text that may be run
THUMBNAIL = 24  # cells along the side of a thumbnail

TEXTS = {
    "cat": {"title": "The cat sat on the mat…", "text": "The cat sat on the mat because it was tired."},
    "names": {"title": "When Mary and John went…", "text": "When Mary and John went to the store, John gave a drink to"},
    "twice": {
        "title": "The same words twice",
        "text": "Amber kettles hum beside frozen willows while seven clocks argue. Amber kettles hum beside frozen willows while seven clocks",
    },
    "long": {
        "title": "The lighthouse keeper's log",
        "text": (
            "The lighthouse at Skarra stands on a shelf of black rock, two miles from the nearest house. Its keeper, Ines Valdo, wrote the log "
            "every evening at nine. She noted the height of the sea, the direction of the wind, the state of the lamp and the number of ships "
            "that passed. On quiet nights the log has four lines. On others it has forty.\n\n"
            "In the first week of March the wind turned north and did not turn back. Ines wrote that the height of the sea was nine feet, then "
            "eleven, then fourteen. She wrote that the lamp smoked because the oil was thick with cold, and that she had warmed the oil on the "
            "stove. She wrote that the direction of the wind was north, and the state of the lamp was good, and the number of ships that passed "
            "was none.\n\n"
            "On the ninth of March a ship did pass. It was the Ardent, out of Leith with timber, and it came so close to the shelf that Ines "
            "could read its name by her own lamp. She wrote the name twice. She wrote that the master of the Ardent stood at the rail and "
            "raised his hat to the light, as masters do, and that she raised her hand, which he could not have seen.\n\n"
            "The storm ended on the twelfth. The height of the sea was nine feet again. The direction of the wind was west. Ines opened the "
            "door of the lamp room and let the smoke out, and the gulls came back to the shelf of black rock as if nothing had happened. In the "
            "log of that evening there are four lines. The last of them says that the number of ships that passed was one, and that its name "
            "was the Ardent."
        ),
    },
    "code": {
        "title": "def attend(query, key…",
        "text": "def attend(query, key, value):\n    scores = query @ key.T / sqrt(key.shape[-1])\n    weights = softmax(scores)\n    return weights @ value\n",
    },
}

"""Visible signs for white space and invisible characters of tokens, in the terminal and in figures, as on the page."""

import unicodedata

SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}


def visible_text(token: str) -> str:
    """A token with a sign in place of each invisible character.

    Example:
        >>> visible_text(" cat"), visible_text("\\n"), visible_text("\\u200d")
        ('␣cat', '↵', '<U+200D>')
    """
    return "".join(SIGNS.get(letter) or (f"<U+{ord(letter):04X}>" if unicodedata.category(letter) in ("Cc", "Cf") else letter) for letter in token)

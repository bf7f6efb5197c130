"""White space and invisible characters of a token, written so that they can be seen: in the terminal and in figures, as the page writes them."""

import unicodedata

SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}


def visible_text(token: str) -> str:
    """A token with a sign for each character that would not be seen.

    Example:
        >>> visible_text(" cat"), visible_text("\\n"), visible_text("\\u200d")
        ('␣cat', '↵', '<U+200D>')
    """
    return "".join(SIGNS.get(letter) or (f"<U+{ord(letter):04X}>" if unicodedata.category(letter) in ("Cc", "Cf") else letter) for letter in token)

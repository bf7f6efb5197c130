"""Plain English made at random, for roles that need text of a kind but no text in particular."""

from random import Random

PEOPLE = ("teacher", "doctor", "farmer", "sailor", "painter", "child", "baker", "singer", "judge", "driver", "writer", "nurse")
ANIMALS = ("cat", "dog", "horse", "bird", "fish", "rabbit", "fox", "sheep", "duck", "mouse")
THINGS = ("house", "boat", "letter", "table", "garden", "bridge", "window", "basket", "clock", "river", "road", "lamp")
QUALITIES = ("old", "small", "red", "quiet", "young", "heavy", "bright", "cold", "happy", "broken")
DEEDS = ("saw", "found", "painted", "followed", "carried", "watched", "left", "remembered", "cleaned", "moved")
WHEN = ("In the morning", "After dinner", "Last summer", "Before the rain", "On Monday", "Every winter", "At night", "Yesterday")
WHERE = ("near the river", "behind the house", "in the town", "under the bridge", "at the market", "by the sea")


def sentence(random: Random) -> str:
    """One sentence.

    Example:
        >>> sentence(Random(1))
        'After dinner the small painter carried the fox under the bridge.'
    """
    who = random.choice(PEOPLE + ANIMALS)
    what = random.choice(THINGS + ANIMALS)
    quality = random.choice(QUALITIES)
    deed = random.choice(DEEDS)
    forms = (
        f"{random.choice(WHEN)} the {quality} {who} {deed} the {what} {random.choice(WHERE)}.",
        f"The {who} {deed} a {quality} {what}, and the {random.choice(PEOPLE)} {random.choice(DEEDS)} the {random.choice(THINGS)}.",
        f"A {quality} {what} was {random.choice(WHERE)}, but the {who} {deed} the {random.choice(THINGS)}.",
        f"When the {who} {deed} the {what}, the {random.choice(ANIMALS)} was {random.choice(WHERE)}.",
    )
    return random.choice(forms)


def text(random: Random, sentences: int) -> str:
    """So many sentences."""
    return " ".join(sentence(random) for _ in range(sentences))

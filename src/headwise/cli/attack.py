"""`headwise attack`: the five moves, before and after a lie is told on the way."""

from typing import Annotated

import typer
from rich.text import Text

from headwise.cli.command import Command, Json
from headwise.cli.output import print_json, show
from headwise.errors import ArgumentError


def attack(
    name: Annotated[str, typer.Argument(metavar="ATTACK", help="Its name; an unknown one lists all.")] = "tie_heads",
    heads: Annotated[int, typer.Option(help="How many heads: 1, 2 or 4.")] = 2,
    json: Json = False,
) -> int:
    """Attack the 3 × 4 example of multi-head attention, and see which of the five moves falls.

    What holds and what falls is proved by ball arithmetic, in which no rounding can hide. Exit code 1 when the attack changes the output and nothing falls.
    """
    from headwise.proof.five_moves import HEADS, attacks, five_moves
    from headwise.show.moves import moves_lines

    if heads not in HEADS:
        raise ArgumentError(f"heads must be 1, 2 or 4, which divide the 4 features of the example, got {heads}. Choose one of them.")
    before, after = five_moves(heads), five_moves(heads, attack=name)
    harmless = before.matrices["out"] == after.matrices["out"]
    if json:
        print_json({"heads": heads, "attack": name, "harmless": harmless, "before": before.as_dict(), "after": after.as_dict()})
    else:
        told = attacks()[name]
        show(Text.assemble((f"attack {name}", "bold"), f"  with {heads} head{'s' if heads > 1 else ''}: {told.lie}"), Text())
        show(*moves_lines(before, after))
        if harmless:
            show(Text(f"The attack does no harm here: it is blind when {told.blind_when}.", "yellow"))
    return 0 if harmless or not after.holds else 1


ENTRY = Command(
    attack,
    examples={
        "headwise attack": "every head made to read head 0's slice: M5 falls, the others hold",
        "headwise attack tie_heads --heads 4": "the same with four heads",
        "headwise attack --heads 1 --json": "with one head there is nothing to tie",
    },
)

"""`headwise attack`: planted faults in attention, and the invariants that detect them."""

from typing import Annotated

import typer
from rich.text import Text

from headwise.cli.command import Command, Json
from headwise.cli.output import counting, print_json, show, waiting
from headwise.errors import ArgumentError


def attack(
    name: Annotated[str | None, typer.Argument(metavar="ATTACK", help="One mutation by name; an unknown name lists all.")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads of the 3 × 4 example: 1, 2 or 4; only the example is shown then. Default: `2`.")] = None,
    moves: Annotated[bool, typer.Option("--moves", help="Only the five moves of the example: a second.")] = False,
    matrix: Annotated[bool, typer.Option("--matrix", help="Only the kill matrix.")] = False,
    json: Json = False,
) -> int:
    """Plant faults in multi-head attention and show which invariants detect each of them.

    Without a name: every head of the 3 × 4 example made to read head 0's slice, and which of the five moves falls, proved by ball arithmetic; then the kill
    matrix, every mutation against every invariant on headwise's own attention (about a minute). Exit code 1 if a fault is missed or a false alarm raised.
    """
    from headwise.conformance.mutations.mutation import mutations

    if moves and matrix:
        raise ArgumentError("moves and matrix must not be given together, got both. Leave both out to see the moves and then the matrix.")
    of_example = name in mutations("exact") or (name is None and (heads is not None or moves))
    if of_example and not matrix:
        return _moves(name or "tie_heads", 2 if heads is None else heads, json)
    if heads is not None:
        raise ArgumentError(f"heads must be left out for {name!r}, got {heads}. Only mutations of the example take heads: {', '.join(mutations('exact'))}.")
    if moves:
        raise ArgumentError(f"moves must come with a mutation of the example, got {name!r}. Choose one of {', '.join(mutations('exact'))}.")
    code = 0 if json or matrix or name is not None else _moves("tie_heads", 2, json)
    return max(code, _matrix(name, json))


def _moves(name: str, heads: int, json: bool) -> int:
    """Show the five moves before and after the mutation."""
    from headwise.conformance.five_moves import HEADS, five_moves
    from headwise.conformance.mutations.mutation import mutations
    from headwise.render.results.moves_table import moves_lines

    if heads not in HEADS:
        raise ArgumentError(f"heads must be 1, 2 or 4, which divide the 4 features of the example, got {heads}. Choose one of them.")
    before, after = five_moves(heads), five_moves(heads, attack=name)
    harmless = before.matrices["out"] == after.matrices["out"]
    if json:
        print_json({"heads": heads, "attack": name, "harmless": harmless, "before": before.as_dict(), "after": after.as_dict()})
    else:
        mutation = mutations("exact")[name]
        show(Text.assemble((f"attack {name}", "bold"), f"  with {heads} head{'s' if heads > 1 else ''}: {mutation.description}"), Text())
        show(*moves_lines(before, after))
        if harmless:
            show(Text(f"The mutation changes nothing here: it is harmless when {mutation.harmless_when}.", "yellow"))
    return 0 if harmless or not after.holds else 1


def _matrix(name: str | None, json: bool) -> int:
    """Show every mutation against every invariant, or only one mutation."""
    from headwise.conformance.kill_matrix import attack as against_all
    from headwise.conformance.kill_matrix import full_matrix
    from headwise.render.results.kill_matrix_table import matrix_lines, row_lines

    if name is None:
        with counting("mutations checked") as bar:
            matrix = full_matrix(bar)
    else:
        with waiting(f"{name} against every invariant"):
            matrix = against_all([name])
    if json:
        print_json(matrix.as_dict())
    elif name is None:
        show(Text(), *matrix_lines(matrix))
    else:
        show(*row_lines(matrix))
    return 0 if matrix.complete else 1


ENTRY = Command(
    attack,
    examples={
        "headwise attack": "every head made to read head 0's slice: M5 falls; then every attack against every invariant",
        "headwise attack --moves": "the five moves alone",
        "headwise attack tie_heads --heads 4": "the five moves of the example with four heads, before and after",
        "headwise attack --heads 1 --json": "with one head there is nothing to tie, so the mutation is harmless",
        "headwise attack softcap_after_mask": "the invariants that detect one mutation, and what each reported first",
    },
)

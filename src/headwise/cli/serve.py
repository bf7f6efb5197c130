"""`headwise serve`: serve the page."""

import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from headwise.cli.command import Command, Json
from headwise.cli.output import print_json, show
from headwise.errors import ArgumentError

DEMOS = ("demo:minilm", "demo:smollm2")


def serve(
    model: Annotated[list[str] | None, typer.Argument(help="Directories with checkpoints, hub ids or demos; demo:minilm and demo:smollm2 by default.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port; 0 for any. By default the first free one from 8017 on.")] = None,
    host: Annotated[str, typer.Option(help="The address to listen on. Anything but loopback lets others on the network read what you read.")] = "127.0.0.1",
    models: Annotated[Path | None, typer.Option(help="A folder whose subfolders with a config.json can be opened from the page too.")] = None,
    compare: Annotated[tuple[str, str] | None, typer.Option(metavar="BASE TUNED", help="Two models that the page compares.")] = None,
    subject: Annotated[list[str] | None, typer.Option(help="package.module:attribute of an attention that the page may check; can be repeated.")] = None,
    save: Annotated[Path, typer.Option(help="The folder for checkpoints of edited models.")] = Path("headwise-checkpoints"),
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    prepare: Annotated[bool, typer.Option("--prepare", help="Compute and store the first view of each model for the next start, and exit.")] = False,
    json: Json = False,
) -> int:
    """Serve the page: every head of a model, its maps, its proof, edits and their effect; the five moves; checks.

    It listens on loopback, needs no network, and stops with Ctrl+C. The printed address contains a token that allows editing and saving; without it the page
    is read-only.
    """
    from headwise.server.serve import host_names, listening_socket, new_token
    from headwise.server.serve import serve as listen
    from headwise.server.state.app_state import ServerSettings

    names = list(model or (() if compare else DEMOS))
    names += [name for name in compare or () if name not in names]
    if models is not None and not models.is_dir():
        raise ArgumentError(f"models must be a folder, got {str(models)!r}. Pass one whose subfolders are checkpoints.")
    if prepare:
        return _prepare(names, json)
    listening, token = listening_socket(host, port), new_token()
    hosts, any_address = host_names(host)
    at = listening.getsockname()[1]
    settings = ServerSettings(names, token, models, save, compare, subject or (), hosts, at, any_address)
    with listening:
        listen(settings, listening, lambda state: _announce(f"http://{_shown(host)}:{at}/?token={token}", names, host, browser, json))
    return 0


def _prepare(names: list[str], json: bool) -> int:
    """Store the first view of each model, and report which could be stored."""
    from headwise.server.state.first_view import prepare_first_view

    stored = {}
    for name in names:
        stored[name] = prepare_first_view(name)  # opening a model shows its own progress
        sentence = "is stored: the page shows it at once." if stored[name] else "could not be stored; the page computes it when it opens the model."
        if not json:
            show(Text.assemble("The first view of ", (name, "bold"), f" {sentence}"))
    if json:
        print_json({"prepared": stored})
    return 0


def _shown(host: str) -> str:
    """The host as a browser on this machine reaches it."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)


def _announce(address: str, names: list[str], host: str, browser: bool, json: bool) -> None:
    """Print the address of the page, and open it."""
    if browser and not json:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    if json:
        print_json({"address": address, "models": names})
        sys.stdout.flush()
        return
    show(Text.assemble("The page of ", (", ".join(names), "bold"), " is at"), Text(f"  {address}", "bold cyan"))
    if host not in ("127.0.0.1", "localhost", "::1"):
        show(Text("Others on the network can open it as well, and read what you read.", "yellow"))
    show(Text("Ctrl+C ends it.", "dim"))


ENTRY = Command(
    serve,
    examples={
        "headwise serve": "the page of the demo models",
        "headwise serve ./my-model --port 9000": "the page of a checkpoint, on a port of your choice",
        "headwise serve --prepare": "compute the first view of the demo models, so that the page shows it at once",
        "headwise serve --compare ./base ./tuned": "how fine-tuning changed each head",
    },
)

"""Listens at an address until it is told to stop."""

import contextlib
import secrets
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from headwise.errors import ArgumentError
from headwise.server.app import application
from headwise.server.guard import LOOPBACK, Guard
from headwise.server.state.app_state import Desk, Settings

PORT = 8017
TRIES = 20  # ports that are tried where none was asked for


class Server(uvicorn.Server):
    """uvicorn, which ends the streams of events when it is told to stop: it would wait for them."""

    def __init__(self, config: uvicorn.Config, desk: Desk) -> None:
        super().__init__(config)
        self.desk = desk

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.desk.hub.close()
        super().handle_exit(sig, frame)


def bound(host: str, port: int | None) -> socket.socket:
    """A socket that listens; at the first free port from 8017 on where none is asked for.

    Raises:
        ArgumentError: the address or the port cannot be had.
    """
    ports = range(PORT, PORT + TRIES) if port is None else [port]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    why = "none is free"
    for one in ports:
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, one))
            found.listen(128)  # a browser that comes before the server is ready waits
        except OSError as error:
            found.close()
            why = error.strerror or str(error)
            continue
        return found
    asked = f"{host}:{port}" if port is not None else f"{host}, ports {ports[0]} to {ports[-1]}"
    raise ArgumentError(f"address must be one that can be listened at, got {asked} ({why}). Choose another --port, or 0 for any.")


def hosts_of(host: str) -> tuple[tuple[str, ...], bool]:
    """The names by which a server at this address is called, and whether any number will do.

    Example:
        >>> hosts_of("127.0.0.1")
        (('127.0.0.1', 'localhost', '[::1]'), False)
    """
    if host in ("127.0.0.1", "localhost", "::1"):
        return LOOPBACK, False
    everywhere = host in ("0.0.0.0", "::")
    return (*LOOPBACK, socket.gethostname(), *(() if everywhere else (f"[{host}]" if ":" in host else host,))), everywhere


def serve(settings: Settings, listening: socket.socket, ready: Callable[[Desk], None]) -> None:
    """Serve until a signal comes.

    Args:
        ready: called once, before the first request is answered.
    """
    guard, desk = application(settings)
    server = Server(configured(guard), desk)
    ready(desk)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again when all is closed
        server.run(sockets=[listening])


def configured(guard: Guard) -> uvicorn.Config:
    return uvicorn.Config(guard, log_level="warning", access_log=False, ws="none", server_header=False, timeout_graceful_shutdown=3)


def new_token() -> str:
    return secrets.token_urlsafe(24)

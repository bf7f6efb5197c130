"""Listen at an address and serve the page until a signal arrives."""

import contextlib
import secrets
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from headwise.errors import ArgumentError
from headwise.server.app import application
from headwise.server.guard import LOOPBACK, Guard
from headwise.server.state.app_state import AppState, ServerSettings

DEFAULT_PORT = 8017
PORTS_TRIED = 20  # where none was asked for


class Server(uvicorn.Server):
    """uvicorn that ends the event streams when it is told to stop, since it would wait for them."""

    def __init__(self, config: uvicorn.Config, state: AppState) -> None:
        super().__init__(config)
        self.state = state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.state.sessions.close()
        super().handle_exit(sig, frame)


def listening_socket(host: str, port: int | None) -> socket.socket:
    """A socket that listens at this address, at the first free port from 8017 on where none is given.

    Raises:
        ArgumentError: the address or the port cannot be used.
    """
    ports = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED) if port is None else [port]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reason = "none is free"
    for one in ports:
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, one))
            found.listen(128)  # a browser that connects before the server is ready waits
        except OSError as error:
            found.close()
            reason = error.strerror or str(error)
            continue
        return found
    address = f"{host}:{port}" if port is not None else f"{host}, ports {ports[0]} to {ports[-1]}"
    raise ArgumentError(f"Cannot listen at {address} ({reason}). Choose another --port, or 0 for any.")


def host_names(host: str) -> tuple[tuple[str, ...], bool]:
    """The names of a server that listens at this address, and whether any numeric address is one too.

    Example:
        >>> host_names("127.0.0.1")
        (('127.0.0.1', 'localhost', '[::1]'), False)
    """
    if host in ("127.0.0.1", "localhost", "::1"):
        return LOOPBACK, False
    all_interfaces = host in ("0.0.0.0", "::")
    return (*LOOPBACK, socket.gethostname(), *(() if all_interfaces else (f"[{host}]" if ":" in host else host,))), all_interfaces


def serve(settings: ServerSettings, listening: socket.socket, on_ready: Callable[[AppState], None]) -> None:
    """Serve until a signal arrives.

    Args:
        listening: from `listening_socket`.
        on_ready: called once, before the first request is answered.
    """
    guard, state = application(settings)
    server = Server(uvicorn_config(guard), state)
    on_ready(state)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again when everything is closed
        server.run(sockets=[listening])


def uvicorn_config(guard: Guard) -> uvicorn.Config:
    return uvicorn.Config(guard, log_level="warning", access_log=False, ws="none", server_header=False, timeout_graceful_shutdown=3)


def new_token() -> str:
    return secrets.token_urlsafe(24)

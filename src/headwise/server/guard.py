"""Who may ask: requests for this very address, from pages of it; those that write with the token. And what browsers may do with the answers."""

import secrets
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwise.server.responses import FRESH, Denied, refusal

CONTENT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
BODY_BYTES = 2 << 20
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Stands before the application.

    Args:
        hosts: names by which this server is called, without the port.
        port: of the address; None where it is not known (the tests' client).
        any_address: also called by any address that is a number, as where it listens on all of them. A name that somebody
            makes point here cannot be one.
        token: what a request that writes must know.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], port: int | None, any_address: bool, token: str) -> None:
        self.app, self.hosts, self.port, self.any_address, self.token = app, set(hosts), port, any_address, token
        self.cookie = f"headwise-{port or 0}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check(headers)
            if scope["path"] == "/" and scope["query_string"]:
                await self._let_in(scope)(scope, receive, sending)
                return
            scope.setdefault("state", {})["may_write"] = self._knows(headers)
            await self.app(scope, _limited(headers, receive), sending)
        except Denied as error:
            if started:
                raise
            await refusal(error)(scope, receive, sending)

    def _check(self, headers: Headers) -> None:
        """Whether the request is meant for us, and comes from nobody else's page.

        Raises:
            Denied: it is not.
        """
        host = headers.get("host", "")
        if not self._ours(host):
            raise Denied(403, "Host", f"Host must be this server's, got {host[:80]!r}. Open the address that the terminal printed.")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise Denied(403, "Origin", f"Origin must be this server's, got {origin[:80]!r}. Other pages may not ask.")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            raise Denied(403, "Origin", "Origin must be this server's, got another site's. Other pages may not ask.")

    def _ours(self, host: str) -> bool:
        name, colon, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
        if self.port is not None and port != str(self.port) and not (self.port == 80 and not colon):
            return False
        return name in self.hosts or (self.any_address and _is_number(name))

    def _knows(self, headers: Headers) -> bool:
        """Whether the token came along, as a cookie or as a header."""
        told = headers.get("x-headwise-token") or _cookies(headers).get(self.cookie, "")
        return secrets.compare_digest(told.encode(), self.token.encode())

    def _let_in(self, scope: Scope) -> RedirectResponse:
        """Takes the token out of the address and leaves it with the browser."""
        told = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        answer = RedirectResponse("/", 303, FRESH)
        if secrets.compare_digest(told.encode(), self.token.encode()):
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return answer


def check_token(scope: Any) -> None:
    """Whether a request may write.

    Raises:
        Denied: it may not.
    """
    if not scope["state"]["may_write"]:
        raise Denied(403, "Token", "token must come with a request that changes something, got none that fits. Open the address that the terminal printed.")


def _limited(headers: Headers, receive: Receive) -> Receive:
    """The body, up to a limit."""
    told, seen = headers.get("content-length", "0"), 0
    if not told.isdigit() or int(told) > BODY_BYTES:
        raise Denied(413, "TooLarge", f"the body must have at most {BODY_BYTES} bytes, got {told[:20]}. Shorten it.")

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > BODY_BYTES:
            raise Denied(413, "TooLarge", f"the body must have at most {BODY_BYTES} bytes, got more. Shorten it.")
        return message

    return receiving


def _cookies(headers: Headers) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def _is_number(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True

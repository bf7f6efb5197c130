"""Access control: only requests for this server's address and from its own page; changes only with the token. Also sets the security headers."""

import secrets
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwise.errors import RequestError
from headwise.server.responses import NOT_CACHED, error_response

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
BODY_BYTES = 2 << 20
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """ASGI middleware in front of the application.

    Args:
        hosts: names of this server, without the port.
        port: of the address; None where it is not known (the tests' client).
        any_address: accept any numeric address as host, for a server that listens on all interfaces. A DNS name that somebody
            points here is never numeric.
        token: required of every request that changes something.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], port: int | None, any_address: bool, token: str) -> None:
        self.app, self.hosts, self.port, self.any_address, self.token = app, set(hosts), port, any_address, token
        self.cookie = f"headwise-{port or 0}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_origin(headers)
            if scope["path"] == "/" and scope["query_string"]:
                await self._take_token(scope)(scope, receive, send_with_headers)
                return
            scope.setdefault("state", {})["may_write"] = self._has_token(headers)
            await self.app(scope, _limited(headers, receive), send_with_headers)
        except RequestError as error:
            if started:
                raise
            await error_response(error)(scope, receive, send_with_headers)

    def _check_origin(self, headers: Headers) -> None:
        """Check that the request is meant for this server and does not come from another site's page.

        Raises:
            RequestError: Host or Origin is another's.
        """
        host = headers.get("host", "")
        if not self._is_our_host(host):
            raise RequestError(403, "Host", f"Host must be this server's, got {host[:80]!r}. Open the address that the terminal printed.")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise RequestError(403, "Origin", f"Origin must be this server's, got {origin[:80]!r}. Other sites may not send requests to it.")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            raise RequestError(403, "Origin", "Origin must be this server's, got another site's. Other sites may not send requests to it.")

    def _is_our_host(self, host: str) -> bool:
        name, colon, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
        if self.port is not None and port != str(self.port) and not (self.port == 80 and not colon):
            return False
        return name in self.hosts or (self.any_address and _is_numeric_address(name))

    def _has_token(self, headers: Headers) -> bool:
        """Whether the request carries the token, as a cookie or as a header."""
        token = headers.get("x-headwise-token") or _cookies(headers).get(self.cookie, "")
        return secrets.compare_digest(token.encode(), self.token.encode())

    def _take_token(self, scope: Scope) -> RedirectResponse:
        """Move the token from the address into a cookie."""
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        response = RedirectResponse("/", 303, NOT_CACHED)
        if secrets.compare_digest(token.encode(), self.token.encode()):
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return response


def check_token(scope: Scope) -> None:
    """Check that a request may change something.

    Raises:
        RequestError: it came without the token.
    """
    if not scope["state"]["may_write"]:
        raise RequestError(403, "Token", "A request that changes something must carry the token. Open the address that the terminal printed.")


def _limited(headers: Headers, receive: Receive) -> Receive:
    """Receive the body, up to the limit."""
    length, received = headers.get("content-length", "0"), 0
    if not length.isdigit() or int(length) > BODY_BYTES:
        raise RequestError(413, "TooLarge", f"The body must have at most {BODY_BYTES} bytes, got {length[:20]}. Shorten it.")

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > BODY_BYTES:
            raise RequestError(413, "TooLarge", f"The body must have at most {BODY_BYTES} bytes, got more. Shorten it.")
        return message

    return receive_limited


def _cookies(headers: Headers) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def _is_numeric_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True

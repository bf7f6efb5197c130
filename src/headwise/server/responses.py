"""What the server answers: JSON, numbers in one binary format, or an error with its kind and a sentence."""

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headwise.errors import HeadwiseError, WritesRefused
from headwise.server.payloads.array_pack import pack

STAYS = {"Cache-Control": "private, max-age=3600, immutable"}  # numbers of a run never change
FRESH = {"Cache-Control": "no-store"}


class Denied(HeadwiseError, RuntimeError):
    """A request that is not honoured, with its HTTP status and the kind that the page reads."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def plain(data: Any) -> Any:
    """Data as JSON has it: NaN and infinity, which JSON lacks, as null.

    Example:
        >>> plain({"a": (1.0, float("nan"))})
        {'a': [1.0, None]}
    """
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    return data


def said(data: Any, status: int = 200) -> JSONResponse:
    """JSON."""
    return JSONResponse(plain(data), status, FRESH)


def numbers(arrays: Mapping[str, Any], **header: Any) -> Response:
    """Arrays in one binary answer, with a header in JSON."""
    return Response(pack(arrays, plain(header)), media_type="application/octet-stream", headers=STAYS)


def refusal(error: HeadwiseError) -> JSONResponse:
    """An error of ours as an answer."""
    status = error.status if isinstance(error, Denied) else 409 if isinstance(error, WritesRefused) else 400
    kind = error.kind if isinstance(error, Denied) else type(error).__name__
    return said({"error": {"kind": kind, "message": str(error)}}, status)


async def body_of(request: Request, required: Mapping[str, type], optional: Mapping[str, type] = {}) -> dict[str, Any]:
    """The JSON object of a request, each field of its type, and none that is unknown.

    Raises:
        Denied: it is not such an object.
    """
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Denied(400, "ArgumentError", "the body must be JSON, got something else. Send an object.") from None
    if not isinstance(found, dict):
        raise Denied(400, "ArgumentError", f"the body must be a JSON object, got {type(found).__name__}. Send an object.")
    known = {**required, **optional}
    for name, kind in known.items():
        if name not in found and name in required:
            raise Denied(400, "ArgumentError", f"the body must have {name!r}, got {', '.join(sorted(found)) or 'nothing'}. Add it.")
        if name in found and not _fits(found[name], kind):
            raise Denied(400, "ArgumentError", f"{name} must be {_word(kind)}, got {type(found[name]).__name__}. Correct it.")
    for name in found:
        if name not in known:
            raise Denied(400, "ArgumentError", f"the body must hold only {', '.join(known)}, got {name!r}. Leave it out.")
    return found


def whole(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A whole number of the query.

    Raises:
        Denied: it is none, or not within low..high.
    """
    word = request.query_params.get(name)
    if word is None:
        return default
    if not (word.isascii() and word.isdigit() and len(word) < 10 and low <= int(word) <= high):
        raise Denied(400, "ArgumentError", f"{name} must be a number in {low}..{high}, got {word[:40]!r}. Correct it.")
    return int(word)


def one_of(request: Request, name: str, choices: tuple[str, ...]) -> str:
    """A word of the query that is one of these; the first when absent."""
    word = request.query_params.get(name, choices[0])
    if word not in choices:
        raise Denied(400, "ArgumentError", f"{name} must be one of {', '.join(choices)}, got {word[:40]!r}. Choose one of them.")
    return word


def _fits(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _word(kind: type) -> str:
    return {str: "a text", int: "a whole number", float: "a finite number"}.get(kind, kind.__name__)

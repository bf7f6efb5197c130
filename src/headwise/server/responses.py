"""Responses of the server: JSON, arrays in one binary format, or an error with its kind and a sentence; and how requests are read."""

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headwise.errors import HeadwiseError, RequestError, WritesRefused
from headwise.server.payloads.json_data import to_json
from headwise.server.payloads.tensor_payload import to_safetensors

if TYPE_CHECKING:
    import numpy as np

CACHED = {"Cache-Control": "private, max-age=3600, immutable"}  # numbers of a run never change
NOT_CACHED = {"Cache-Control": "no-store"}
BINARY = "application/octet-stream"


def json_response(data: object, status: int = 200) -> JSONResponse:
    """Plain data as JSON."""
    return JSONResponse(to_json(data), status, NOT_CACHED)


def array_response(arrays: "Mapping[str, np.ndarray]", **header: object) -> Response:
    """Arrays in one binary response, with a JSON header."""
    return Response(to_safetensors(arrays, {name: to_json(value) for name, value in header.items()}), media_type=BINARY, headers=CACHED)


def error_response(error: HeadwiseError) -> JSONResponse:
    """An error as a response: its HTTP status, its kind and its message."""
    status = error.status if isinstance(error, RequestError) else 409 if isinstance(error, WritesRefused) else 400
    kind = error.kind if isinstance(error, RequestError) else type(error).__name__
    return json_response({"error": {"kind": kind, "message": str(error)}}, status)


async def read_body(request: Request, required: Mapping[str, type], optional: Mapping[str, type] = {}) -> dict[str, Any]:
    """The JSON object in the body of a request, with every field of its type and no unknown field.

    Raises:
        RequestError: the body is not such an object.
    """
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise RequestError(400, "ArgumentError", "The body must be JSON. Send an object.") from None
    if not isinstance(body, dict):
        raise RequestError(400, "ArgumentError", f"The body must be a JSON object, got {type(body).__name__}. Send an object.")
    known = {**required, **optional}
    for name, kind in known.items():
        if name not in body and name in required:
            raise RequestError(400, "ArgumentError", f"The body must have {name!r}, got {', '.join(sorted(body)) or 'nothing'}. Add it.")
        if name in body and not _is_a(body[name], kind):
            raise RequestError(400, "ArgumentError", f"{name} must be {_type_name(kind)}, got {type(body[name]).__name__}. Correct it.")
    for name in body:
        if name not in known:
            raise RequestError(400, "ArgumentError", f"The body must have no fields but {', '.join(known)}, got {name!r}. Leave it out.")
    return body


def integer_parameter(request: Request, name: str, default: int, low: int, high: int) -> int:
    """An integer in the query string.

    Raises:
        RequestError: it is not an integer within low..high.
    """
    value = request.query_params.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 10 and low <= int(value) <= high):
        raise RequestError(400, "ArgumentError", f"{name} must be an integer in {low}..{high}, got {value[:40]!r}. Correct it.")
    return int(value)


def choice_parameter(request: Request, name: str, choices: tuple[str, ...]) -> str:
    """One of these choices, from the query string; the first when absent.

    Raises:
        RequestError: it is none of them.
    """
    value = request.query_params.get(name, choices[0])
    if value not in choices:
        raise RequestError(400, "ArgumentError", f"{name} must be one of {', '.join(choices)}, got {value[:40]!r}. Choose one of them.")
    return value


def _is_a(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _type_name(kind: type) -> str:
    return {str: "a string", int: "an integer", float: "a finite number"}.get(kind, kind.__name__)

"""POST /api/extract: the conversation in a value, and what a cell shows of it, for values that only the page has.

The body is read as every other one is, within the same limits. The answer is made in a thread where the value is large:
others are waiting for the loop.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from litestar import Request, Response, post
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType

from palaver.core import json
from palaver.core.extraction import Prefer, Preview, preview, read_conversation
from palaver.core.extraction.search import Conversation
from palaver.errors import InvalidBody, InvalidType, InvalidValue
from palaver.server import security
from palaver.server.api.dependencies import ApiController
from palaver.server.request import Exchange
from palaver.server.settings import Settings

_SMALL = 64 * 1024
"""Bytes of a body that is answered at once."""


class Extracted(msgspec.Struct, frozen=True):
    """What was found in a value."""

    conversation: Conversation | None
    preview: Preview


@dataclass
class _Operation(Operation):
    """What OpenAPI says of the body, which the route reads itself."""

    def __post_init__(self) -> None:
        side = Schema(enum=["input", "output", None], description="The side that comes first, where there are several.")
        body = Schema(
            type=OpenAPIType.OBJECT,
            properties={"value": Schema(description="Any JSON."), "prefer": side},
            required=["value"],
        )
        self.request_body = RequestBody(content={"application/json": OpenAPIMediaType(schema=body)}, required=True)


class ExtractController(ApiController):
    path = "/api/extract"

    settings: Settings

    @post(
        operation_id="extract",
        summary="The conversation in a value, and what a cell shows of it",
        status_code=200,
        operation_class=_Operation,
    )
    async def extract(self, request: "Request[Any, Any, Any]") -> Response[Extracted]:
        asgi = cast("Any", request)  # Litestar's names for ASGI's types are its own.
        exchange = Exchange(asgi.scope, asgi.receive, asgi.send)
        security.check_json(exchange)
        body = await exchange.body(self.settings)
        answer = (
            _answer(body, self.settings)
            if len(body) <= _SMALL
            else await asyncio.to_thread(_answer, body, self.settings)
        )
        return Response(cast("Extracted", answer), media_type="application/json")


def _answer(body: bytes, settings: Settings) -> bytes:
    value, prefer = _asked(json.decode(body, settings.json_limits))
    return json.encode(Extracted(read_conversation(value, prefer), preview(value, prefer)))


def _asked(body: object) -> tuple[object, Prefer | None]:
    if not isinstance(body, dict):
        raise InvalidBody('The body must be an object with a value: {"value": …}.')
    known = cast("dict[str, Any]", body)
    if "value" not in known:
        raise InvalidBody('The body has no value: {"value": …}.', pointer="/value")
    match known.get("prefer"):
        case None | "input" | "output" as prefer:
            return known["value"], prefer
        case str() as other:
            raise InvalidValue(f"prefer must be input, output or null, not {other[:40]!r}.", pointer="/prefer")
        case _:
            raise InvalidType("prefer must be a string or null.", pointer="/prefer")

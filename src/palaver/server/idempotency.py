"""Idempotency-Key: a POST that is sent again does nothing, and gets the response of the first one.

Requests with a run claim the key under the id of the run, so that a repeated request can read that run. All others
store their response with what they write, in one transaction (`server/api/conventions.py`).
"""

import re
from datetime import datetime

from palaver.engine.poller import poll_until
from palaver.engine.run_reader import RunReader
from palaver.errors import InvalidValue, Overloaded, RunNotFound
from palaver.server.auth import Caller
from palaver.storage.idempotency import IdempotentRequest
from palaver.storage.runs import RunRow

HEADER = "idempotency-key"
REPLAYED_HEADER = ("idempotency-replayed", "true")
"""Marks a response that was given before."""
_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_MAX_ROUTE_CHARS = 200
_RUN_START_TIMEOUT_S = 10.0


def validate_key(key: str) -> None:
    """Raise InvalidValue for a malformed Idempotency-Key."""
    if not _KEY.fullmatch(key):
        raise InvalidValue("An Idempotency-Key is 1 to 128 printable ASCII characters.")


def create_claim(caller: Caller, key: str, route: str, digest: bytes, now: datetime) -> IdempotentRequest:
    """The claim of a request. `route` is its method and path, `digest` a SHA-256 of what it sends."""
    return IdempotentRequest(
        project=caller.project,
        owner=caller.key or "",
        route=route[:_MAX_ROUTE_CHARS],
        key=key,
        digest=digest,
        at=now,
    )


async def wait_for_run(records: RunReader, project: str, run: str) -> RunRow:
    """The run that claimed a key. It may be about to start, in any process: wait until it is there."""

    async def find() -> RunRow | None:
        try:
            return await records.get_row(project, run)
        except RunNotFound:
            return None

    try:
        return await poll_until(find, timeout_s=_RUN_START_TIMEOUT_S)
    except TimeoutError:
        raise Overloaded("The same was asked a moment ago, and has not begun: try again.") from None

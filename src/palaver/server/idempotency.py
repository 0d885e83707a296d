"""Idempotency-Key: a POST that is sent again has no effect, and gets the response of the first one.

Calls claim the key under the id of their run, so that a repeated call can read that run. All other requests store
their response with what they write, in one transaction (`server/api/conventions.py`).
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime

from palaver.engine.engine import new_run_id, utc_now
from palaver.engine.poller import poll_until
from palaver.engine.run_reader import RunReader
from palaver.errors import InvalidValue, Overloaded, RunNotFound
from palaver.protocols.base import Adapter
from palaver.server.auth import Caller
from palaver.server.conversation_history import ResolvedCall
from palaver.server.error_responses import StatusColumn, add_headers, final_status
from palaver.server.rate_limit import RateLimits
from palaver.server.replay import replay_events
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage import idempotency as claims
from palaver.storage.database import Database
from palaver.storage.idempotency import IdempotentRequest
from palaver.storage.runs import RunRow

HEADER = "idempotency-key"
REPLAYED_HEADER = ("idempotency-replayed", "true")
"""Marks the response to a repeated request."""
_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_MAX_ROUTE_CHARS = 200
_RUN_START_TIMEOUT_S = 10.0


def validate_key(key: str) -> None:
    """Raise InvalidValue for a malformed Idempotency-Key."""
    if not _KEY.fullmatch(key):
        raise InvalidValue("Invalid Idempotency-Key: must be 1 to 128 printable ASCII characters without spaces.")


def create_claim(caller: Caller, key: str, route: str, digest: bytes, now: datetime) -> IdempotentRequest:
    """Create the claim of a request. `route` is its method and path, `digest` a SHA-256 of what it sends."""
    return IdempotentRequest(
        project=caller.project,
        owner=caller.key or "",
        route=route[:_MAX_ROUTE_CHARS],
        key=key,
        digest=digest,
        at=now,
    )


async def wait_for_run(run_reader: RunReader, project: str, run: str) -> RunRow:
    """Return the run that claimed a key. It may be about to start, in any process: wait until it is stored."""

    async def find() -> RunRow | None:
        try:
            return await run_reader.get_row(project, run)
        except RunNotFound:
            return None

    try:
        return await poll_until(find, timeout_s=_RUN_START_TIMEOUT_S)
    except TimeoutError:
        raise Overloaded("A request with this Idempotency-Key is still starting. Try again shortly.") from None


class IdempotentCalls:
    """Claims Idempotency-Keys for runs, and answers a repeated call with the run of the first one."""

    def __init__(self, settings: Settings, database: Database, run_reader: RunReader, rate_limits: RateLimits) -> None:
        self._settings = settings
        self._database = database
        self._run_reader = run_reader
        self._rate_limits = rate_limits

    async def claim(
        self, exchange: Exchange, key: str, content: Sequence[bytes], unresolved: ResolvedCall
    ) -> ResolvedCall:
        """Claim the key for a new run id; `earlier_run` is the run of an earlier request with the same `content`."""
        digest = hashlib.sha256()
        for part in (exchange.scope["query_string"], *content):
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        route = f"{exchange.method} {exchange.path}"
        claim = create_claim(exchange.caller, key, route, digest.digest(), utc_now())
        run = new_run_id()
        earlier = await self._database.write(claims.claim_for_run, claim, run)
        return unresolved._replace(run_id=run, claim=claim, earlier_run=None if earlier is None else earlier.run)

    async def release(self, unresolved: ResolvedCall) -> None:
        """Release the claim of a run that was not started, so that a retry can start it."""
        if unresolved.claim is not None and unresolved.run_id is not None:
            await self._database.write(claims.release_claim, unresolved.claim, unresolved.run_id)

    async def replay(self, exchange: Exchange, adapter: Adapter, column: StatusColumn, repeated: ResolvedCall) -> None:
        """Respond with the run of an earlier request; if it is still active, follow it to its end."""
        project, run, protocol_request = exchange.caller.project, repeated.earlier_run, repeated.protocol_request
        assert run is not None
        row = await wait_for_run(self._run_reader, project, run)
        exchange.run_id = run
        with self._rate_limits.streams.slot(exchange.caller):
            started = await self._run_reader.get_started_event(row)
            head, stall = adapter.response_head(started, protocol_request), self._settings.stream_stall
            batches = self._run_reader.follow(project, run)
            if head is not None:
                head, encode = add_headers(head, REPLAYED_HEADER), adapter.stream_encoder(protocol_request)
                await replay_events(exchange, head, encode, batches, stall=stall, started=started)
                return
            async for _ in batches:
                pass
        events = await self._run_reader.read_log(project, run)
        if not events:
            raise RunNotFound(f"The output of run {run!r} was not stored.")
        response = adapter.encode_response(events, protocol_request, status=final_status(events[-1], column))
        await exchange.respond(add_headers(response, REPLAYED_HEADER))

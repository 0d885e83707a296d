"""What an attack is, what it requires, and how it is judged: the first attempt that is not rejected breaks it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from palaver.cli.security_probe.raw_http import Headers, RawReply, Target, send_request
from palaver.core import json
from palaver.outbound import printable

Verdict = Literal["held", "broken", "not applicable"]
Requirement = Literal["nothing", "a caller", "a keyed server", "a key"]
"""No requirement; a caller with access; a server that requires keys; a key."""

INVALID_HOST = "palaver-doctor.invalid"
"""A reserved name (RFC 2606)."""
JSON_HEADER = ("Content-Type", "application/json")
CALL_PATH = "/v1/chat/completions"
CALL_BODY = json.encode({"model": INVALID_HOST, "messages": [{"role": "user", "content": "Hi"}]})
"""A call to a workflow that does not exist."""


class ProbedServer(NamedTuple):
    target: Target
    key: str | None = None
    wants_key: bool = False
    scopes: frozenset[str] = frozenset()
    """Scopes of our key."""
    version: str | None = None
    """Palaver's version; None if the server does not report one."""

    @property
    def has_access(self) -> bool:
        """Whether we may invoke and read. Otherwise a rejection tells nothing."""
        return "admin" in self.scopes or {"invoke", "read"} <= self.scopes

    @property
    def credential(self) -> Headers:
        return [("Authorization", f"Bearer {self.key}")] if self.key is not None else []

    async def send(self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"") -> RawReply:
        """Send a request with our key."""
        return await send_request(self.target, method, path, [*self.credential, *headers], body)

    async def send_without_key(
        self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"", host: str | None = None
    ) -> RawReply:
        return await send_request(self.target, method, path, headers, body, host=host)


class AttackOutcome(NamedTuple):
    verdict: Verdict
    sent: str
    came: str


class Attack(NamedTuple):
    name: str
    statement: str
    """The section of the security contract."""
    says: str
    """What should hold."""
    run: Callable[[ProbedServer], Awaitable[AttackOutcome]]
    needs: Requirement = "nothing"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attack. The field names are JSON keys of the report."""

    name: str
    statement: str
    says: str
    sent: str
    came: str
    verdict: Verdict


class Attempt(NamedTuple):
    """One request of an attack."""

    sent: str
    """A short description."""
    send: Callable[[], Awaitable[RawReply]]


async def run_attempts(attempts: Iterable[Attempt], is_good: Callable[[RawReply], bool]) -> AttackOutcome:
    """Send the attempts in order, up to the first whose reply is not good."""
    first, count, replies = "", 0, dict[str, None]()
    for attempt in attempts:
        reply = await attempt.send()
        if not is_good(reply):
            return AttackOutcome("broken", attempt.sent, _describe_reply(reply))
        first, count = first or attempt.sent, count + 1
        replies[reply.summary] = None
    return AttackOutcome("held", f"{first}, and {count - 1} more" if count > 1 else first, ", ".join(replies))


def _describe_reply(reply: RawReply) -> str:
    body = reply.body.decode("utf-8", "replace").strip()
    return f"{reply.summary}: {body}" if body else reply.summary


def status_in(*good: int) -> Callable[[RawReply], bool]:
    """Accept replies with one of these statuses."""
    return lambda reply: reply.status in good


def not_applicable(reason: str) -> AttackOutcome:
    return AttackOutcome("not applicable", "", reason)


_MISSING_REQUIREMENT: Mapping[Requirement, str] = {
    "nothing": "",
    "a caller": "it takes a key with invoke and read: give one by --key-file or PALAVER_KEY",
    "a keyed server": "no key was ever given out there, and only this machine can reach it",
    "a key": "it takes a key: give one by --key-file or PALAVER_KEY",
}


def _mask_key(key: str | None, text: str) -> str:
    """Remove our key from a reply, which may end up in a log."""
    return text.replace(key, "***") if key else text


async def run_attack(attack: Attack, server: ProbedServer) -> Finding:
    """Run an attack, if the server meets its requirement."""
    is_possible = {
        "nothing": True,
        "a caller": server.has_access,
        "a keyed server": server.wants_key,
        "a key": server.key is not None,
    }[attack.needs]
    missing = attack.needs if server.wants_key else "a keyed server"
    outcome = await attack.run(server) if is_possible else not_applicable(_MISSING_REQUIREMENT[missing])
    return Finding(
        name=attack.name,
        statement=attack.statement,
        says=attack.says,
        sent=printable(_mask_key(server.key, outcome.sent), 160),
        came=printable(
            _mask_key(server.key, outcome.came), 160
        ),  # Truncated afterwards, so that no part of a key is left.
        verdict=outcome.verdict,
    )

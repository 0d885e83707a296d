"""What an attack is, what it needs, and how its tries are judged: the first that is not turned away breaks it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from palaver.cli.security_probe.raw_http import Headers, RawReply, Target, send_request
from palaver.core import json
from palaver.outbound import printable

Verdict = Literal["held", "broken", "not applicable"]
Requirement = Literal["nothing", "a caller", "a keyed server", "a key"]
"""Nothing; somebody who may ask at all; a server that wants keys; a key of ours."""

INVALID_HOST = "palaver-doctor.invalid"
"""A name that nobody has or will ever have (RFC 2606)."""
JSON_HEADER = ("Content-Type", "application/json")
CALL_PATH = "/v1/chat/completions"
CALL_BODY = json.encode({"model": INVALID_HOST, "messages": [{"role": "user", "content": "Hi"}]})
"""A call that would run nothing, could it get through: no workflow has that name."""


class ProbedServer(NamedTuple):
    """The server that is attacked, and what is known of it."""

    target: Target
    key: str | None = None
    wants_key: bool = False
    scopes: frozenset[str] = frozenset()
    """What we may do there."""
    version: str | None = None
    """Of Palaver; None: it does not say that it is one."""

    @property
    def lets_us_in(self) -> bool:
        """May we call and look? Else what is refused is refused for that, and tells nothing."""
        return "admin" in self.scopes or {"invoke", "read"} <= self.scopes

    @property
    def credential(self) -> Headers:
        """Ours, if we have one."""
        return [("Authorization", f"Bearer {self.key}")] if self.key is not None else []

    async def ask(self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"") -> RawReply:
        """As a caller."""
        return await send_request(self.target, method, path, [*self.credential, *headers], body)

    async def ask_as_stranger(
        self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"", host: str | None = None
    ) -> RawReply:
        """Without our key."""
        return await send_request(self.target, method, path, headers, body, host=host)


class AttackOutcome(NamedTuple):
    """How an attack went."""

    verdict: Verdict
    sent: str
    came: str


class Attack(NamedTuple):
    """One of them."""

    name: str
    statement: str
    """The line of the security contract that it tries."""
    says: str
    """What should hold."""
    run: Callable[[ProbedServer], Awaitable[AttackOutcome]]
    needs: Requirement = "nothing"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What an attack found."""

    name: str
    statement: str
    says: str
    sent: str
    came: str
    verdict: Verdict


class Attempt(NamedTuple):
    """One request of an attack, not sent yet."""

    sent: str
    """What it is, in a few words."""
    send: Callable[[], Awaitable[RawReply]]


async def run_attempts(tries: Iterable[Attempt], is_good: Callable[[RawReply], bool]) -> AttackOutcome:
    """Send one after the other, up to the first that does not go well: no more than needed to know."""
    last, count, told = "", 0, dict[str, None]()
    for one in tries:
        reply = await one.send()
        if not is_good(reply):
            return AttackOutcome("broken", one.sent, _describe_reply(reply))
        last, count = last or one.sent, count + 1
        told[reply.told] = None
    return AttackOutcome("held", f"{last}, and {count - 1} more" if count > 1 else last, ", ".join(told))


def _describe_reply(reply: RawReply) -> str:
    said = reply.body.decode("utf-8", "replace").strip()
    return f"{reply.told}: {said}" if said else reply.told


def status_in(*good: int) -> Callable[[RawReply], bool]:
    """Is the answer one of these?"""
    return lambda reply: reply.status in good


def not_applicable(why: str) -> AttackOutcome:
    """There is nothing to try."""
    return AttackOutcome("not applicable", "", why)


_MISSING_REQUIREMENT: Mapping[Requirement, str] = {
    "nothing": "",
    "a caller": "it takes a key with invoke and read: give one by --key-file or PALAVER_KEY",
    "a keyed server": "no key was ever given out there, and only this machine can reach it",
    "a key": "it takes a key: give one by --key-file or PALAVER_KEY",
}


def _mask_key(key: str | None, text: str) -> str:
    """What a server says back may have our key in it, which is not for somebody's log."""
    return text.replace(key, "***") if key else text


async def run_attack(attack: Attack, server: ProbedServer) -> Finding:
    """An attack, if it can be tried there."""
    can = {
        "nothing": True,
        "a caller": server.lets_us_in,
        "a keyed server": server.wants_key,
        "a key": server.key is not None,
    }[attack.needs]
    missing = attack.needs if server.wants_key else "a keyed server"
    outcome = await attack.run(server) if can else not_applicable(_MISSING_REQUIREMENT[missing])
    return Finding(
        name=attack.name,
        statement=attack.statement,
        says=attack.says,
        sent=printable(_mask_key(server.key, outcome.sent), 160),
        came=printable(_mask_key(server.key, outcome.came), 160),  # Cut afterwards: no half of a key is left.
        verdict=outcome.verdict,
    )

"""Which path means what. Adding a protocol is one line in the table of what every workflow answers."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import ModuleType, SimpleNamespace
from typing import Literal, NamedTuple, Protocol, cast

from palaver.core.descriptions import RESERVED
from palaver.errors import MethodNotAllowed, NotFound, PalaverError
from palaver.protocols import agenta, chat_completions, invoke, openai_errors, responses, run, services, ui_stream
from palaver.protocols.base import Adapter, Answer, Request
from palaver.server import questions
from palaver.server.exchange import Exchange
from palaver.server.guards import is_bad
from palaver.server.questions import Served
from palaver.server.status import Column, status_of_end
from palaver.server.stored import Stored

Kind = Literal["call", "question", "stored", "resume", "stop", "service", "traces", "own", "api", "page"]
Ask = Callable[[Request, Served], Answer]
Asks = Callable[[Stored, Exchange, Request], Awaitable[Answer | None]]
_READ = ("GET", "HEAD")
_SHORT = 200  # What strangers send us may not fill our memory.


class Fails(Protocol):
    """How an error looks on a route."""

    def __call__(self, error: PalaverError, reading: None, *, status: int) -> Answer:
        """The answer to a request that could not even be read."""
        ...


class Endpoint(NamedTuple):
    """What stands at a path."""

    kind: Kind
    methods: tuple[str, ...]
    fails: Fails | None = None
    adapter: Adapter | None = None
    """For a call: the protocol it is made in."""
    ask: Ask | None = None
    """For a question: who answers it."""
    asks: Asks | None = None
    """For what was stored: who answers it."""
    cancels: bool = True
    """For a call: does a client that leaves end the run, where the author says nothing?"""
    interrupts: bool = False
    """For a call: does it end a run of the same session that is still going?"""
    picks: bool = False
    """For a call: may its body name the workflow?"""
    keeps: bool = True
    """For a call: is the note of how to answer it kept with the run?"""
    column: Column = "a"
    protocol: str = ""
    """For a call: the name of the protocol."""


class Match(NamedTuple):
    """An endpoint, the workflow that the path names (None: the default one), and what else it names."""

    endpoint: Endpoint
    workflow: str | None
    name: str
    parameters: Mapping[str, str] = {}


def call(
    protocol: ModuleType, *, column: Column = "b", picks: bool = False, cancels: bool = True, interrupts: bool = False
) -> Endpoint:
    """A protocol's place in the table."""
    adapter = cast("Adapter", protocol)
    fails = cast("Fails", adapter.failure)
    name = protocol.__name__.rpartition(".")[2]
    return Endpoint(
        "call",
        ("POST",),
        fails,
        adapter,
        cancels=cancels,
        interrupts=interrupts,
        picks=picks,
        column=column,
        protocol=name,
    )


def _question(
    ask: Ask, fails: Callable[..., Answer], methods: tuple[str, ...] = _READ, *, column: Column = "b"
) -> Endpoint:
    return Endpoint("question", methods, cast("Fails", fails), ask=ask, column=column)


def _openai(error: PalaverError, reading: None, *, status: int) -> Answer:  # noqa: ARG001 - the shape of all of them
    return openai_errors.failure(error, status=status)


OF_WORKFLOWS: dict[str, Endpoint] = {
    "inspect": _question(questions.inspect, agenta.failure, ("GET", "POST"), column="a"),
    "invoke": call(invoke, column="a"),
    "run": call(run, column="a"),
    "test": call(run, column="a"),
    "invocations": call(responses, picks=True),
    "responses": call(responses, picks=True),
    "v1/responses": call(responses, picks=True),
    "v1/chat/completions": call(chat_completions, picks=True),
    "api/chat": call(ui_stream, cancels=False, interrupts=True),
    "v1/models": _question(questions.models, _openai),
    "agent/info": _question(questions.agent_info, _openai),
}
"""Below `/{w}`, and at the root for the default workflow."""


def _stored(asks: Asks, *methods: str) -> Endpoint:
    return Endpoint("stored", methods, _openai, asks=asks, column="b")


_PATTERNS: Sequence[tuple[str, re.Pattern[str], Endpoint]] = [
    (name, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", name)), endpoint)
    for name, endpoint in {
        "v1/models/{model}": _question(questions.model, _openai),
        "api/chat/{id}/stream": Endpoint("resume", _READ, cast("Fails", ui_stream.failure), column="b"),
        "api/chat/{id}/stop": Endpoint("stop", ("POST",), cast("Fails", ui_stream.failure), column="b"),
        "(v1/)?responses/{id}": _stored(Stored.response, "GET", "HEAD", "DELETE"),
        "(v1/)?responses/{id}/cancel": _stored(Stored.cancel, "POST"),
        "(v1/)?responses/{id}/input_items": _stored(Stored.input_items, "GET", "HEAD"),
        "(v1/)?conversations": _stored(Stored.conversations, "POST"),
        "(v1/)?conversations/{id}": _stored(Stored.conversation, "GET", "HEAD", "POST", "DELETE"),
        "(v1/)?conversations/{id}/items": _stored(Stored.items, "GET", "HEAD", "POST"),
        "(v1/)?conversations/{id}/items/{item}": _stored(Stored.item, "GET", "HEAD", "DELETE"),
    }.items()
]
"""The same, for paths that name something more."""


def _service() -> Endpoint:
    """Services are answered elsewhere; their calls as those of any protocol, which tells the status of errors too."""
    own = SimpleNamespace(**vars(services))
    own.frames = partial(services.frames, status=partial(status_of_end, column="b"))
    return call(cast("ModuleType", own))._replace(kind="service", keeps=False)


_SERVICE = _service()
SERVICES: Mapping[str, Endpoint] = {
    "services": _SERVICE._replace(methods=_READ),
    "services/{w}": _SERVICE._replace(methods=(*_READ, "POST")),
    services.STREAM: _SERVICE,
    "services/{w}/README.md": _SERVICE._replace(methods=_READ),
}
_NO_SERVICE = _SERVICE._replace(methods=(*_READ, "POST", "PUT", "PATCH", "DELETE"))

OWN: Mapping[str, Endpoint] = {
    path: Endpoint("own", _READ)
    for path in ("health", "ready", "livez", "version", "status", "metrics", "openapi.json")
}
TRACES: Mapping[str, Endpoint] = {"v1/traces": Endpoint("traces", ("POST",), column="b")}
"""What is sent over OTLP: spans, and neither logs nor metrics. At the root only."""
_API = Endpoint("api", ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
_PAGE = Endpoint("page", _READ)
PAGES = frozenset("play workflows traces sessions testsets evaluations reviews settings login".split())
"""First segments of the page's own paths: each gives the same document, which looks at the rest itself."""


def match(path: str) -> Match | None:
    """What a path means; None where it means nothing. A slash at its end changes nothing."""
    whole = path.strip("/")
    first, _, rest = whole.partition("/")
    if first not in RESERVED and rest in OF_WORKFLOWS:
        return Match(OF_WORKFLOWS[rest], first, rest)
    if whole in OF_WORKFLOWS:
        return Match(OF_WORKFLOWS[whole], None, whole)
    if whole in TRACES:
        return Match(TRACES[whole], None, whole)
    if not first or first in PAGES:
        return Match(_PAGE, None, "page")
    if first == "assets":
        return Match(_PAGE, None, "asset", {"file": rest})
    if first == "services":
        return _of_service(rest)
    if not rest and first in OWN:
        return Match(OWN[first], None, first)
    found = _named(whole, None) if first in RESERVED else _named(rest, first)
    return found or (Match(_API, None, "api") if first == "api" else None)


def _of_service(rest: str) -> Match:
    """A path below /services; also one at which nothing stands, for services have their own way to say so."""
    workflow, _, more = rest.partition("/")
    name = "/".join(["services", *(["{w}"] if workflow else []), *([more] if more else [])])
    if name not in SERVICES:
        return Match(_NO_SERVICE, workflow, "services/{w}/other")
    return Match(SERVICES[name], workflow or None, name)


class Place(NamedTuple):
    """What a path means, if anything."""

    path: str
    """Without the prefix that a proxy may have left on it."""
    bad: bool
    """Is it anything but one plain spelling?"""
    found: Match | None


def place(prefix: str, path: str, raw_path: bytes) -> Place:
    """What a path means, behind a proxy that may leave that prefix on it."""
    return (_known_place if len(path) <= _SHORT else _known_place.__wrapped__)(prefix, path, raw_path)


@lru_cache(1024)
def _known_place(prefix: str, path: str, raw_path: bytes) -> Place:
    bad = is_bad(path, raw_path)
    path = below(prefix, path)
    return Place(path, bad, None if bad else match(path))


def _named(path: str, workflow: str | None) -> Match | None:
    for name, pattern, endpoint in _PATTERNS:
        if named := pattern.fullmatch(path):
            return Match(endpoint, workflow, name, {key: value for key, value in named.groupdict().items() if value})
    return None


def nothing(path: str) -> NotFound:
    """The answer to a path that means nothing."""
    return NotFound(f"There is nothing at {path[:80]}.")


def below(prefix: str, path: str) -> str:
    """The path without the prefix that a proxy may have left on it."""
    return path[len(prefix) :] or "/" if path == prefix or path.startswith(f"{prefix}/") else path


def check_method(endpoint: Endpoint, method: str, path: str) -> None:
    """Raise for a method that the endpoint does not take."""
    if method not in endpoint.methods:
        raise MethodNotAllowed(method, path, allowed=endpoint.methods)


def of(workflow: str) -> dict[str, str]:
    """The paths under which a workflow can be called, by protocol."""
    return {
        "invoke": f"/{workflow}/invoke",
        "responses": f"/{workflow}/v1/responses",
        "invocations": f"/{workflow}/invocations",
        "chat_completions": f"/{workflow}/v1/chat/completions",
        "ui_stream": f"/{workflow}/api/chat",
        "services": f"/services/{workflow}",
    }

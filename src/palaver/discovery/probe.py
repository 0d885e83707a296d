"""Discover what a URL serves: is it a chat, by which evidence, and how to call it (docs/reference/discovery.md).

`discover` reports errors of the service in its result. `require_callable` raises if the result is not enough to call
the service. evidence.py reads the documents; frameworks/remote.py calls the service.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import Struct

from palaver.discovery.evidence import (
    Confidence,
    Dialect,
    Discovery,
    DocumentFacts,
    Evidence,
    ProbeStep,
    read_agent_info,
    read_inspect,
    read_models,
    read_openapi,
)
from palaver.errors import DiscoveryRefused, InvalidOption, NotDiscovered, UpstreamFailed
from palaver.outbound import check_url, client, printable, read_limited

if TYPE_CHECKING:
    import httpx

MAX_DOCUMENT_BYTES = 1024 * 1024

# Endings of URLs that are copied from other clients, and the dialect of each.
_ENDPOINTS: dict[str, Dialect | None] = {
    "/invoke": "invoke",
    "/inspect": None,
    "/run": "run",
    "/test": "run",
    "/responses": "responses",
    "/invocations": "responses",
    "/chat/completions": "chat-completions",
}
_GATEWAY_STATUSES = (502, 503, 504)
_MAX_MODELS_SHOWN = 20
_NO_FACTS = DocumentFacts(summary="")


class _Address(Struct, frozen=True):
    base: str
    path: str
    endpoint: str | None
    notes: tuple[str, ...]


class _Verdict(Struct, frozen=True):
    evidence: Evidence
    is_chat: bool | None = None
    confidence: Confidence | None = None
    facts: DocumentFacts = _NO_FACTS


class _CredentialsRequired(Exception):
    """Ends the search: further requests would be refused too."""


async def discover(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    model: str | None = None,
    request_seconds: float = 5.0,
    total_seconds: float = 15.0,
    transport: "httpx.AsyncBaseTransport | None" = None,
) -> Discovery:
    """Probe a URL. The first step with an answer decides; later ones are skipped.

    Errors of a `transport` that refuses the address (palaver.outbound) are raised.
    """
    address = _parse_address(url)
    refused = False
    async with client(headers=headers, timeout=request_seconds, transport=transport) as http:
        deadline = asyncio.get_running_loop().time() + total_seconds
        search = _Search(http, address.base, request_seconds, deadline)
        try:
            verdict = await _search_evidence(search, address)
        except _CredentialsRequired:
            verdict, refused = _Verdict("none"), True
    facts = verdict.facts
    chosen_model = model or (facts.models[0] if len(facts.models) == 1 else None)
    dialect = facts.dialect
    if verdict.evidence == "openai.models" and address.endpoint and _ENDPOINTS[address.endpoint] == "responses":
        dialect = "responses"  # Such servers support both; the URL decides.
    unreachable = all(step.status in (None, *_GATEWAY_STATUSES) for step in search.tried if step.request)
    return Discovery(
        url=address.base,
        is_chat=verdict.is_chat,
        evidence=verdict.evidence,
        confidence=verdict.confidence,
        dialect=dialect,
        call=_call_request(address.base, dialect, facts.endpoint, suffix=address.endpoint, evidence=verdict.evidence),
        streams=facts.streams,
        schemas=facts.schemas,
        warnings=tuple(dict.fromkeys(_warnings(address, search, verdict, model, unreachable=unreachable))),
        tried=tuple(search.tried),
        parameters=facts.parameters,
        name=facts.name,
        description=facts.description,
        models=facts.models,
        model=chosen_model,
        endpoint=address.endpoint,
        refused=refused,
        unreachable=unreachable,
    )


def require_callable(
    discovery: Discovery, *, is_chat: bool | None = None, dialect: Dialect | None = None, model: str | None = None
) -> Discovery:
    """Apply the operator's values to a discovery. Raises NotDiscovered if it still cannot be called.

    A service that is unreachable can be called only if the operator declares dialect and is_chat.
    """
    if dialect is not None and dialect not in get_args(Dialect):
        raise InvalidOption(f"Unknown dialect '{dialect}'. Available: {', '.join(get_args(Dialect))}.")
    implied_is_chat = True if dialect in ("responses", "chat-completions") else None
    chosen_is_chat = next((value for value in (is_chat, discovery.is_chat, implied_is_chat) if value is not None), None)
    chosen_dialect, chosen_model = dialect or discovery.dialect, model or discovery.model
    if chosen_is_chat is None or chosen_dialect is None:
        raise _not_discovered(discovery)
    if not chosen_model and (
        chosen_dialect == "chat-completions" or (chosen_dialect == "responses" and discovery.models)
    ):
        details = {"models": list(discovery.models), "tried": msgspec.to_builtins(discovery.tried)}
        raise NotDiscovered(_model_required_message(discovery), details=details)
    warnings = list(discovery.warnings)
    if chosen_is_chat != discovery.is_chat and discovery.is_chat is not None:
        warnings.append(f"is_chat={chosen_is_chat} overrides the value found by {discovery.evidence}.")
    if chosen_dialect != discovery.dialect and discovery.dialect is not None:
        warnings.append(f"dialect={chosen_dialect} overrides the discovered dialect {discovery.dialect}.")
    is_same_dialect = chosen_dialect == discovery.dialect
    return msgspec.structs.replace(
        discovery,
        is_chat=chosen_is_chat,
        confidence="declared" if is_chat is not None else discovery.confidence or "assumed",
        dialect=chosen_dialect,
        call=discovery.call
        if is_same_dialect
        else _call_request(discovery.url, chosen_dialect, None, suffix=discovery.endpoint, evidence=discovery.evidence),
        model=chosen_model,
        warnings=tuple(warnings),
    )


# The search


async def _search_evidence(search: "_Search", address: _Address) -> _Verdict:
    inspection = await search.fetch("inspect.flags", "POST /inspect", read_inspect)
    if search.tried[-1].status in (404, 405):
        inspection = await search.fetch("inspect.flags", "GET /inspect", read_inspect)
    if inspection and inspection.is_chat is not None:
        return _Verdict("inspect.flags", inspection.is_chat, "declared", inspection)
    openapi = await search.fetch("openapi.flags", "GET /openapi.json", lambda body: read_openapi(body, address.path))
    facts = next((document for document in search.documents if document.endpoint), _NO_FACTS)
    if openapi and openapi.is_chat is not None:
        return _Verdict("openapi.flags", openapi.is_chat, "declared", facts)
    if marked_input := next((document.marked_input for document in search.documents if document.marked_input), None):
        search.tried.append(ProbeStep("schema.marker", None, None, f"the input {marked_input} is marked as messages"))
        return _Verdict("schema.marker", True, "marked", facts)
    takes_messages = next(
        (document.takes_messages for document in search.documents if document.takes_messages is not None), None
    )
    if takes_messages is not None:
        text = f"the input schema has {'a' if takes_messages else 'no'} 'messages' property"
        search.tried.append(ProbeStep("schema.messages", None, None, text))
        return _Verdict("schema.messages", takes_messages, "guessed", facts)
    if facts.dialect is not None:  # A service of Agenta is a chat only if it says so.
        evidence: Evidence = "inspect.flags" if facts is inspection else "openapi.flags"
        return _Verdict(evidence, False, "assumed", facts)
    info = await search.fetch("mlflow.info", "GET /agent/info", read_agent_info)
    if info and info.is_chat:
        return _Verdict("mlflow.info", True, "declared", info)
    models = await search.fetch("openai.models", f"GET {_v1_prefix(address.base)}/models", read_models)
    if models and models.models:
        return _Verdict("openai.models", True, "assumed", models)
    return _Verdict("none")


@dataclass
class _Search:
    http: "httpx.AsyncClient"
    base: str
    seconds: float
    deadline: float
    tried: list[ProbeStep] = field(default_factory=list[ProbeStep])
    documents: list[DocumentFacts] = field(default_factory=list[DocumentFacts])
    failures: list[str] = field(default_factory=list[str])

    async def fetch(
        self, step: Evidence, request: str, read: Callable[[object], DocumentFacts]
    ) -> DocumentFacts | None:
        status, body = await self._send(*request.split(" ", 1))
        document = _decode_object(body) if isinstance(body, bytes) else body
        if isinstance(document, str):
            self.tried.append(ProbeStep(step, request, status, document))
            if status in (401, 403):
                raise _CredentialsRequired
            if status not in (404, 405, 410):
                self.failures.append(f"{request}: {document}")
            return None
        facts = read(document)
        self.tried.append(ProbeStep(step, request, status, facts.summary))
        self.documents.append(facts)
        return facts

    async def _send(self, method: str, path: str) -> tuple[int | None, bytes | str]:
        """Return status and body, or the reason for a missing body as text."""
        import httpx

        timeout = min(self.seconds, self.deadline - asyncio.get_running_loop().time())
        if timeout <= 0:
            return None, "skipped: the time limit was reached"
        # Some servers close idle connections silently; a new one for each request avoids errors.
        headers = {"accept": "application/json", "connection": "close"}
        body = None
        if method == "POST":
            headers["content-type"], body = "application/json", b"{}"
        status = None
        try:
            async with (
                asyncio.timeout(timeout),
                self.http.stream(method, self.base + path, content=body, headers=headers) as response,
            ):
                status = response.status_code
                if status == 200:
                    return status, await read_limited(response, MAX_DOCUMENT_BYTES)
                return status, _status_text(status, response.extensions["location"])
        except (TimeoutError, httpx.TimeoutException):
            return status, f"no response within {timeout:.2g} s"
        except httpx.ConnectError as error:
            return status, f"connection failed: {printable(str(error))}"
        except UpstreamFailed as error:
            return status, error.message.rstrip(".")
        except httpx.HTTPError:
            return status, "the connection was lost"


def _status_text(status: int, location: str) -> str:
    match status:
        case 401 | 403:
            return "requires credentials"
        case 404 | 405 | 410:
            return "not found"
        case 301 | 302 | 303 | 307 | 308:
            return f"redirects to '{printable(location)}', which is not followed"
        case _:
            return f"returned status {status}"


def _decode_object(body: bytes) -> dict[str, Any] | str:
    """Decode a JSON object, or return an error text."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError):  # Not JSON, not an object, not UTF-8, or nested too deeply.
        return "not a JSON object"


# Messages


def _warnings(
    address: _Address, search: _Search, verdict: _Verdict, model: str | None, *, unreachable: bool
) -> Iterator[str]:
    yield from address.notes
    for document in search.documents:
        yield from document.warnings
    has_messages = any(document.marked_input or document.takes_messages for document in search.documents)
    if verdict.is_chat is False and verdict.confidence == "declared" and has_messages:
        yield f"{verdict.evidence} declares is_chat = false, but the schema has messages. The declaration is used."
    if verdict.is_chat is False and verdict.confidence == "assumed":
        yield "The service does not declare flags.is_chat, so it is not a chat. Pass is_chat=True if it is one."
    if search.tried[-1].status in (401, 403):
        yield f"{_path_of(search.tried[-1])} requires credentials. Pass them as headers."
    if verdict.is_chat is not None and verdict.facts.dialect is None:
        yield f"Could not identify the protocol of {verdict.facts.endpoint}. Specify it with the 'dialect' option."
    if model and verdict.facts.models and model not in verdict.facts.models:
        yield f"The service does not list the model '{printable(model)}'."
    if unreachable:
        yield f"Cannot reach {address.base}."
        return
    yield from (f"Detection may be incomplete: {failure}." for failure in search.failures)


def _not_discovered(discovery: Discovery) -> NotDiscovered | DiscoveryRefused:
    details = {"tried": msgspec.to_builtins(discovery.tried)}
    if discovery.refused:
        return DiscoveryRefused(
            f"{_path_of(discovery.tried[-1])} requires credentials. Pass them as headers.", details=details
        )
    problem = "cannot be reached" if discovery.unreachable else "could not be identified"
    if discovery.evidence != "none":
        problem = "uses an unsupported protocol"
    tried = "; ".join(f"{step.request or step.step}: {step.found}" for step in discovery.tried)
    return NotDiscovered(
        f"{discovery.url} {problem}. Tried: {tried}. Specify 'dialect' and 'is_chat' if you know them.",
        details=details,
    )


def _model_required_message(discovery: Discovery) -> str:
    if not discovery.models:
        return f"{discovery.url} requires a model name. Specify it with the 'model' option."
    names, hidden = ", ".join(discovery.models[:_MAX_MODELS_SHOWN]), len(discovery.models) - _MAX_MODELS_SHOWN
    listing = f"{names} and {hidden} more" if hidden > 0 else names
    return f"{discovery.url} has several models. Specify one with the 'model' option: {listing}."


# URLs


def _parse_address(url: str) -> _Address:
    import httpx

    check_url(url)
    parsed = httpx.URL(url)
    without_query = parsed.copy_with(query=None, fragment=None)
    base, notes = str(without_query).rstrip("/"), list[str]()
    if parsed.query:
        notes.append("The query string of the URL is ignored.")
    path = without_query.raw_path.decode().rstrip("/")  # Without the host, which may be called "test".
    endpoint = next((suffix for suffix in _ENDPOINTS if path.endswith(suffix)), None)
    if endpoint:
        base = base.removesuffix(endpoint).rstrip("/")
        notes.append(f"The URL ends in {endpoint}; using the base URL {base}.")
    return _Address(base, httpx.URL(base).path.rstrip("/"), endpoint, tuple(notes))


def _call_request(
    base: str, dialect: Dialect | None, endpoint: str | None, *, suffix: str | None, evidence: Evidence
) -> str | None:
    """Return the request that calls the service: by its document, else by the given URL, else the default."""
    match dialect:
        case None:
            return None
        case "invoke" | "run":
            default_path = f"/{dialect}"
        case "responses":
            # MLflow's servers identify themselves; all others follow OpenAI.
            default_path = "/invocations" if evidence == "mlflow.info" else f"{_v1_prefix(base)}/responses"
        case "chat-completions":
            default_path = f"{_v1_prefix(base)}/chat/completions"
    suffix = suffix if suffix and _ENDPOINTS[suffix] == dialect else None
    return f"POST {base}{endpoint or suffix or default_path}"


def _path_of(step: ProbeStep) -> str:
    return (step.request or "").partition(" ")[2]


def _v1_prefix(base: str) -> str:
    has_v1 = base.endswith("/v1") and not base.endswith("//v1")  # The latter is a host.
    return "" if has_v1 else "/v1"

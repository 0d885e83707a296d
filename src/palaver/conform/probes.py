"""The requests that `palaver conform` sends: a prompt, streamed and not, and a malformed request."""

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from palaver.conform import Protocol
from palaver.conform.ui_stream import Version

PROMPT = "Say hello in one short sentence."

Kind = Literal["stream", "whole", "refusal"]

# Endings of URLs, and the protocol of each. `/responses` without `/v1` is MLflow's.
_PATH_ENDINGS: Mapping[str, Protocol] = {
    "/v1/responses": "responses",
    "/responses": "invocations",
    "/invocations": "invocations",
    "/v1/chat/completions": "chat-completions",
    "/chat/completions": "chat-completions",
    "/api/chat": "ui-stream",
}
_SERVICE = re.compile(r"(?P<place>(?P<root>.*)/services/[^/]+)(/stream)?")


class ProbeUrls(Struct, frozen=True):
    endpoints: Mapping[Protocol, str]
    models: str
    """Where its models are listed, if they are."""


class Probe(Struct, frozen=True, kw_only=True):
    """One request, and what its response is checked for."""

    protocol: Protocol
    kind: Kind
    name: str
    """For people."""
    body: dict[str, Any]
    headers: Mapping[str, str] = {}
    below: str = ""
    """Appended to the URL: a service streams elsewhere."""


def probe_urls(url: str, protocol: Protocol | None = None) -> ProbeUrls:
    """Return the endpoints below a base URL, with or without `/v1`; the URL of an endpoint is used as it is."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    service = _SERVICE.fullmatch(path)
    ending = next((ending for ending in _PATH_ENDINGS if path.endswith(ending)), None)
    root = path.removesuffix(ending or "").removesuffix("/v1")

    def at(path: str) -> str:
        return parts._replace(path=path, query="", fragment="").geturl()

    if service is not None and protocol in (None, "services"):
        return ProbeUrls({"services": at(service["place"])}, at(f"{service['root']}/v1/models"))
    usual: dict[Protocol, str] = {
        "responses": at(f"{root}/v1/responses"),
        "invocations": at(f"{root}/invocations"),
        "chat-completions": at(f"{root}/v1/chat/completions"),
        "ui-stream": at(f"{root}/api/chat"),
    }
    above, _, name = root.rpartition("/")
    if name:  # The services of a server are at its root. The default workflow has no name here.
        usual["services"] = at(f"{above}/services/{name}")
    if ending is not None:
        found: dict[Protocol, str] = {protocol or _PATH_ENDINGS[ending]: at(path)}
    else:
        found = {spoken: place for spoken, place in usual.items() if protocol in (None, spoken)}
    return ProbeUrls(found, at(f"{root}/v1/models"))


def build_probes(
    protocol: Protocol, *, prompt: str = PROMPT, model: str | None = None, ui_version: Version = 6
) -> list[Probe]:
    """Return the requests for one protocol, in the order in which they are sent: the first one streams."""

    def probe(kind: Kind, name: str, **body: Any) -> Probe:
        named = {"model": model} if model is not None and protocol not in ("ui-stream", "services") else {}
        headers = {"x-palaver-ui-version": str(ui_version)} if protocol == "ui-stream" else {}
        below = "/stream" if protocol == "services" and kind == "stream" else ""
        return Probe(protocol=protocol, kind=kind, name=name, body=named | body, headers=headers, below=below)

    message = {"role": "user", "content": prompt}
    match protocol:
        case "responses" | "invocations":
            return [
                probe("stream", "stream", input=[message], stream=True),
                probe("whole", "whole", input=[message], stream=False),
                probe("refusal", "bad request", input=42),
            ]
        case "chat-completions":
            return [
                probe("stream", "stream", messages=[message], stream=True),
                probe("stream", "usage", messages=[message], stream=True, stream_options={"include_usage": True}),
                probe("whole", "whole", messages=[message], stream=False),
                probe("refusal", "bad request"),
            ]
        case "ui-stream":
            user_message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": prompt}]}
            return [
                probe("stream", "stream", id="palaver-conform", messages=[user_message], trigger="submit-message"),
                probe("refusal", "bad request", id="palaver-conform", messages=42),
            ]
        case "services":
            return [
                probe("stream", "stream", content=prompt, history=[]),
                probe("whole", "whole", content=prompt, history=[]),
                probe("refusal", "bad request", content=42),
            ]

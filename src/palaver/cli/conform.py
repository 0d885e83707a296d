"""palaver conform: check a server's streams, or a recorded stream, against the protocol rules."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args
from urllib.parse import urlsplit

import click
import msgspec
from msgspec import Struct

from palaver.cli.input_files import open_input
from palaver.cli.output import format_json, request_failure
from palaver.cli.workflow_lookup import require_valid_url
from palaver.conform import RULES, Protocol, Report, Violation, grade, grade_body, grade_refusal, grade_unanswered
from palaver.conform.ui_stream import Version
from palaver.core import json
from palaver.errors import PalaverError, UpstreamFailed
from palaver.outbound import check_headers, printable, read_limited
from palaver.outbound import client as outbound

if TYPE_CHECKING:
    import httpx


PROMPT = "Say hello in one short sentence."

Kind = Literal["stream", "whole", "refusal"]

# The protocol by the end of a URL. `/responses` without `/v1` is MLflow's.
_PATH_ENDINGS: Mapping[str, Protocol] = {
    "/v1/responses": "responses",
    "/responses": "invocations",
    "/invocations": "invocations",
    "/v1/chat/completions": "chat-completions",
    "/chat/completions": "chat-completions",
    "/api/chat": "ui-stream",
}
_SERVICE_PATH = re.compile(r"(?P<url>(?P<root>.*)/services/[^/]+)(/stream)?")


class ProbeUrls(Struct, frozen=True):
    endpoints: Mapping[Protocol, str]
    models: str
    """The URL of the list of models, which may not exist."""


class Probe(Struct, frozen=True, kw_only=True):
    """One request, and how its response is graded."""

    protocol: Protocol
    kind: Kind
    name: str
    body: dict[str, Any]
    headers: Mapping[str, str] = {}
    path_suffix: str = ""
    """Appended to the URL: a service streams at another path."""


def probe_urls(url: str, protocol: Protocol | None = None) -> ProbeUrls:
    """Return the endpoints below a base URL, with or without `/v1`; the URL of an endpoint is used unchanged."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    service = _SERVICE_PATH.fullmatch(path)
    ending = next((ending for ending in _PATH_ENDINGS if path.endswith(ending)), None)
    root = path.removesuffix(ending or "").removesuffix("/v1")

    def with_path(path: str) -> str:
        return parts._replace(path=path, query="", fragment="").geturl()

    if service is not None and protocol in (None, "services"):
        return ProbeUrls({"services": with_path(service["url"])}, with_path(f"{service['root']}/v1/models"))
    defaults: dict[Protocol, str] = {
        "responses": with_path(f"{root}/v1/responses"),
        "invocations": with_path(f"{root}/invocations"),
        "chat-completions": with_path(f"{root}/v1/chat/completions"),
        "ui-stream": with_path(f"{root}/api/chat"),
    }
    parent, _, name = root.rpartition("/")
    if name:  # The services of a server are at its root. The default workflow has no name here.
        defaults["services"] = with_path(f"{parent}/services/{name}")
    if ending is not None:
        endpoints: dict[Protocol, str] = {protocol or _PATH_ENDINGS[ending]: with_path(path)}
    else:
        endpoints = {name: endpoint for name, endpoint in defaults.items() if protocol in (None, name)}
    return ProbeUrls(endpoints, with_path(f"{root}/v1/models"))


def build_probes(
    protocol: Protocol, *, prompt: str = PROMPT, model: str | None = None, ui_version: Version = 6
) -> list[Probe]:
    """Return the requests for one protocol, in the order in which they are sent: the first one streams."""

    def probe(kind: Kind, name: str, **body: Any) -> Probe:
        model_field = {"model": model} if model is not None and protocol not in ("ui-stream", "services") else {}
        headers = {"x-palaver-ui-version": str(ui_version)} if protocol == "ui-stream" else {}
        path_suffix = "/stream" if protocol == "services" and kind == "stream" else ""
        return Probe(
            protocol=protocol, kind=kind, name=name, body=model_field | body, headers=headers, path_suffix=path_suffix
        )

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


_MAX_RESPONSE_BYTES = 16 * 1024 * 1024
_NOT_SERVED_STATUSES = (404, 405, 410, 501)
_CREDENTIALS_REQUIRED_STATUSES = (401, 403)
_MODELS_TIMEOUT_S = 5.0
_TABLE_COLUMNS = 160
"""Width of the table if the output is not a terminal: enough for one line per check."""


class _GradeOptions(NamedTuple):
    model: str | None
    prompt: str
    ui_version: Literal[5, 6, 7]
    strict: bool
    seconds: float


class _GradedCheck(msgspec.Struct, frozen=True, kw_only=True):
    protocol: Protocol
    check: str
    url: str
    report: Report | None
    """None if nothing could be graded."""
    note: str = ""
    """Why nothing could be graded."""
    refused: bool = False
    """Whether the server asks for credentials."""

    @property
    def result(self) -> str:
        if self.report is None:
            return "refused" if self.refused else "not served"
        if not self.report.ok:
            return "broken"
        return "ok" if not self.report.violations else "ok, but"


class _Response(NamedTuple):
    """A response. `fault` says why it is incomplete, if it is."""

    status: int
    headers: dict[str, str]
    body: bytes
    fault: str = ""


@click.command()
@click.argument("url", required=False)
@click.option("--file", "recorded", metavar="FILE", help="Check a recorded stream (- for standard input).")
@click.option("--protocol", type=click.Choice(get_args(Protocol)), help="Check only this protocol.")
@click.option("--model", help="Model to request.")
@click.option("--prompt", default=PROMPT, show_default=True, help="Message to send.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Send this header. Repeatable.")
@click.option(
    "--timeout", default=60.0, show_default=True, type=click.FloatRange(min=0.1), help="Timeout per request in seconds."
)
@click.option(
    "--ui-version", type=click.Choice(["5", "6", "7"]), default="6", show_default=True, help="AI SDK client version."
)
@click.option("--strict", is_flag=True, help="Also fail on SHOULD rules.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    url: str | None,
    recorded: str | None,
    protocol: Protocol | None,
    headers: Sequence[str],
    as_json: bool,
    timeout: float,
    ui_version: str,
    **options: Any,
) -> int:
    """Check a server's streams, or a recorded stream, against the protocol rules.

    Protocols: Responses, Chat Completions, UI streams and services. URL is a
    base URL, with or without /v1, or the URL of an endpoint.

    Exit code 0: no violations of rules that clients rely on; 1: violations, or
    nothing could be checked; 2: usage error.

    \b
    Examples:
      palaver conform http://localhost:8642/eliza
      palaver conform http://localhost:8642/services/eliza --strict
      palaver conform https://example.org/v1 --header 'authorization: Bearer …'
      curl -N …/v1/responses -d … | palaver conform --file - --protocol responses
    """
    if (url is None) == (recorded is None):
        raise click.UsageError("Pass either a URL or --file.")
    version = cast("Literal[5, 6, 7]", int(ui_version))
    grade_options = _GradeOptions(**options, ui_version=version, seconds=timeout)
    if recorded is not None:
        if protocol is None:
            raise click.UsageError("--file requires --protocol.")
        with open_input(recorded) as stream:
            report = grade(stream.read(), protocol, ui_version=version, strict=grade_options.strict)
        checks = [_GradedCheck(protocol=protocol, check="stream", url="a recorded stream", report=report)]
    else:
        assert url is not None
        checks = asyncio.run(_grade_server(url, protocol, dict(map(_parse_header, headers)), grade_options))
    if as_json:
        _print_json(checks, grade_options)
    else:
        _print_table(checks)
    reports = [check.report for check in checks if check.report is not None]
    return 0 if reports and all(report.ok for report in reports) else 1


def _parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError("Invalid --header: expected 'NAME: VALUE'.")  # The value may be a secret.
    header = {name.strip(): value.strip()}
    try:
        check_headers(header)
    except PalaverError:
        raise click.UsageError(f"Invalid --header {name.strip()!r}: not allowed in HTTP.") from None
    return next(iter(header.items()))


# Requests


async def _grade_server(
    url: str, protocol: Protocol | None, headers: dict[str, str], options: _GradeOptions
) -> list[_GradedCheck]:
    require_valid_url(url)
    urls = probe_urls(url, protocol)
    if not urls.endpoints:
        raise click.UsageError(f"Invalid service URL {printable(url, 300)!r}: expected …/services/NAME.")
    async with outbound(headers=headers, timeout=options.seconds) as http:
        model = options.model or await _find_only_model(http, urls)
        checks: list[_GradedCheck] = []
        for endpoint_protocol, endpoint in urls.endpoints.items():
            checks += await _grade_endpoint(http, endpoint_protocol, endpoint, options._replace(model=model))
        return checks


async def _find_only_model(http: "httpx.AsyncClient", urls: ProbeUrls) -> str | None:
    """Return the model if the server lists exactly one, else None."""
    response = await _send(http, "GET", urls.models, None, {}, _MODELS_TIMEOUT_S)
    match json.parse_or_text(response.body.decode("utf-8", "replace")) if response.status == 200 else None:
        case {"data": [{"id": str(name)}]}:
            return name
        case _:
            return None


async def _grade_endpoint(
    http: "httpx.AsyncClient", protocol: Protocol, endpoint: str, options: _GradeOptions
) -> list[_GradedCheck]:
    checks: list[_GradedCheck] = []
    stream_body: bytes | None = None
    for probe in build_probes(protocol, prompt=options.prompt, model=options.model, ui_version=options.ui_version):
        url = endpoint + probe.path_suffix
        response = await _send(http, "POST", url, json.encode(probe.body), probe.headers, options.seconds)
        if not checks and response.status in (*_NOT_SERVED_STATUSES, *_CREDENTIALS_REQUIRED_STATUSES):
            note = f"{response.status}: {_error_message(response.body)}"
            refused = response.status in _CREDENTIALS_REQUIRED_STATUSES
            return [_GradedCheck(protocol=protocol, check=probe.name, url=url, report=None, note=note, refused=refused)]
        report = _grade_response(probe, response, stream_body, options)
        if probe.kind == "stream" and stream_body is None:
            stream_body = response.body
        checks.append(_GradedCheck(protocol=protocol, check=probe.name, url=url, report=report))
    return checks


def _grade_response(probe: Probe, response: _Response, stream_body: bytes | None, options: _GradeOptions) -> Report:
    protocol, strict = probe.protocol, options.strict
    if response.fault:
        return grade_unanswered(response.fault, protocol, strict=strict)
    if probe.kind == "refusal":
        return grade_refusal(response.status, response.body, protocol, strict=strict)
    if response.status != 200:
        why = f"the server responded with {response.status}: {_error_message(response.body)}"
        return grade_unanswered(why, protocol, strict=strict)
    if probe.kind == "whole":
        return grade_body(response.body, protocol, stream=stream_body, body_from="another-run", strict=strict)
    return grade(response.body, protocol, headers=response.headers, ui_version=options.ui_version, strict=strict)


async def _send(
    http: "httpx.AsyncClient", method: str, url: str, body: bytes | None, headers: Any, seconds: float
) -> _Response:
    import httpx

    request_headers = {
        "connection": "close",
        **({"content-type": "application/json"} if body is not None else {}),
        **headers,
    }
    status, response_headers = 0, dict[str, str]()
    try:
        async with (
            asyncio.timeout(seconds),
            http.stream(method, url, content=body, headers=request_headers) as response,
        ):
            status, response_headers = response.status_code, dict(response.headers)
            return _Response(status, response_headers, await read_limited(response, _MAX_RESPONSE_BYTES))
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise UpstreamFailed(request_failure(url, error)) from None
    except (TimeoutError, httpx.TimeoutException):
        return _Response(status, response_headers, b"", f"no complete response within {seconds:g} s")
    except UpstreamFailed as error:
        return _Response(status, response_headers, b"", error.message.rstrip("."))
    except httpx.HTTPError as error:
        is_lost = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
        parts = "connection lost" if is_lost else "invalid response", printable(str(error)).rstrip(".")
        return _Response(status, response_headers, b"", ": ".join(filter(None, parts)))


def _error_message(body: bytes) -> str:
    """Return the error message, in any of the usual shapes."""
    match json.parse_or_text(body.decode("utf-8", "replace")):
        case {"error": {"message": str(message)}} | {"detail": str(message)} | {"message": str(message)}:
            return message
        case str(text):
            return text
        case _:
            return "no message"


# Output. Only here is text of the server made printable.


def _print_table(checks: Sequence[_GradedCheck]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, emoji=False, width=_TABLE_COLUMNS)
    table = Table("protocol", "check", "result", "first violation", "frame")
    for check in checks:
        first = _first_violation(check)
        rule = f"{first.rule} ({first.severity}): {first.why}" if first else check.note
        frame = "" if first is None or first.frame_index is None else f"{first.frame_index}: {first.frame}"
        colour = {"ok": "green", "ok, but": "yellow", "broken": "bold red"}.get(check.result, "dim")
        table.add_row(
            check.protocol,
            _CHECK_LABELS.get(check.check, check.check),
            Text(_RESULT_LABELS.get(check.result, check.result), colour),
            Text(printable(rule, 100)),
            Text(printable(frame, 60)),
        )
    console.print(table)
    for check in checks:
        for line in _detail_lines(check):
            console.print(Text(line), soft_wrap=True)


_RESULT_LABELS = {"broken": "failed", "ok, but": "warnings", "refused": "needs credentials"}
"""Labels in the table of results whose JSON value reads differently."""
_CHECK_LABELS = {"whole": "complete"}
"""Likewise for checks."""


def _first_violation(check: _GradedCheck) -> Violation | None:
    report = check.report
    return None if report is None else report.first or next(iter(report.violations), None)


def _detail_lines(check: _GradedCheck) -> list[str]:
    """Describe each broken rule once, with the first frame that broke it."""
    lines: list[str] = []
    by_rule: dict[str, list[Violation]] = {}
    for violation in check.report.violations if check.report is not None else ():
        by_rule.setdefault(violation.rule, []).append(violation)
    for rule, violations in by_rule.items():
        first, more = violations[0], f", and {len(violations) - 1} more" if len(violations) > 1 else ""
        place = "" if first.frame_index is None else f", frame {first.frame_index} (line {first.line})"
        label = f"{check.protocol}, {_CHECK_LABELS.get(check.check, check.check)}{place}"
        lines += [
            f"{label}: {rule} ({first.severity}{more}): {printable(first.why, 300)}",
            f"    rule: {RULES[rule].text}",
        ]
        if first.frame:
            lines.append(f"    frame: {printable(first.frame, 300)}")
    return lines


def _print_json(checks: Sequence[_GradedCheck], options: _GradeOptions) -> None:
    rows = [
        {
            "protocol": check.protocol,
            "check": check.check,
            "place": check.url,
            "result": check.result,
            "note": printable(check.note, 300),
            "frames": check.report.frames if check.report is not None else 0,
            "broken": [_violation_json(item) for item in check.report.violations] if check.report is not None else [],
        }
        for check in checks
    ]
    graded = [check.report for check in checks if check.report is not None]
    document = {"ok": bool(graded) and all(report.ok for report in graded), "strict": options.strict, "checks": rows}
    click.echo(format_json(document))


def _violation_json(violation: Violation) -> dict[str, Any]:
    fields = {
        "frame": printable(violation.frame, 2000),
        "why": printable(violation.why, 500),
        "says": RULES[violation.rule].text,
    }
    return msgspec.to_builtins(violation) | fields

"""Probing an unknown service: which step succeeds, the warnings, and the requests that are never sent.

Every service is a real HTTP server on loopback.
"""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.discovery.evidence import (
    Discovery,
    DocumentFacts,
    ProbeStep,
    public_report,
    read_agent_info,
    read_inspect,
    read_models,
    read_openapi,
)
from palaver.discovery.probe import discover, require_callable
from palaver.errors import DiscoveryRefused, InvalidOption, NotDiscovered, UrlRefused

CHAT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"messages": {"type": "array"}, "subject": {"type": "string"}},
}
FORM_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
MARKED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"turns": {"type": "array", "x-ag-type-ref": "messages"}},
}


@dataclass
class Answer:
    """One response of a fake service. `pace` is how it is sent: at once, byte by byte forever, or never."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    pace: Literal["at once", "dripping", "never"] = "at once"


@dataclass
class FakeService:
    """A fake service that sends the given responses, 404 elsewhere, and records its requests."""

    url: str
    answers: dict[str, Answer]
    asked: list[str] = field(default_factory=list[str])
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])


@pytest.fixture
def start_service() -> Iterator[Callable[[dict[str, Any]], FakeService]]:
    """Start fake services from tables `{"POST /inspect": document or Answer}`."""
    test_ended = Event()
    servers: list[tuple[ThreadingHTTPServer, Thread]] = []

    def start(table: dict[str, Any]) -> FakeService:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                request = f"{self.command} {self.path}"
                service.asked.append(request)
                service.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.answer(service.answers.get(request, Answer({"detail": "Not Found"}, 404)))

            do_GET = do_POST  # noqa: N815, the name is http.server's

            def answer(self, answer: Answer) -> None:
                if answer.pace == "never":
                    test_ended.wait()
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                body = answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
                try:
                    while answer.pace == "dripping" and not test_ended.wait(0.001):
                        self.wfile.write(b" ")
                    self.wfile.write(body)
                except OSError:
                    pass  # The client closed the connection.

            def log_message(self, format: str, *args: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        service = FakeService(
            f"http://127.0.0.1:{server.server_port}",
            {request: value if isinstance(value, Answer) else Answer(value) for request, value in table.items()},
        )
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return service

    yield start
    test_ended.set()
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def unreachable_url() -> str:
    """A URL where no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def openapi(*operations: str, flags: Any = None, body: Any = None, **others: Any) -> dict[str, Any]:
    """An OpenAPI document with POST operations that all have the same flags and body."""
    operation: dict[str, Any] = {}
    if flags is not None:
        operation["x-agenta"] = {"flags": flags}
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return {"openapi": "3.1.0", "paths": {path: {"post": operation} for path in operations}, **others}


def inspect_document(schema: Any, **others: Any) -> dict[str, Any]:
    return {"version": "2025.07.14", "revision": {"data": {"schemas": {"inputs": schema}}}, **others}


NO_INSPECT = (
    ProbeStep("inspect.flags", "POST /inspect", 404, "not found"),
    ProbeStep("inspect.flags", "GET /inspect", 404, "not found"),
)
NO_OPENAPI = ProbeStep("openapi.flags", "GET /openapi.json", 404, "not found")
NO_INFO = ProbeStep("mlflow.info", "GET /agent/info", 404, "not found")
NO_MODELS = ProbeStep("openai.models", "GET /v1/models", 404, "not found")


# Which step succeeds


async def test_the_public_report_has_the_documented_fields(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"POST /app/inspect": {"request": {"flags": {"is_chat": True}}}})

    result = await discover(f"{app.url}/app")

    assert msgspec.json.decode(msgspec.json.encode(public_report(result))) == {
        "url": f"{app.url}/app",
        "is_chat": True,
        "evidence": "inspect.flags",
        "confidence": "declared",
        "dialect": "invoke",
        "call": f"POST {app.url}/app/invoke",
        "streams": None,
        "schemas": {},
        "warnings": [],
        "tried": [
            {
                "step": "inspect.flags",
                "request": "POST /inspect",
                "status": 200,
                "found": "request.flags.is_chat = true",
            }
        ],
    }
    assert app.asked == ["POST /app/inspect"]


async def test_everything_that_a_palaver_server_declares_is_discovered(
    start_service: Callable[..., FakeService],
) -> None:
    schemas = {
        "inputs": CHAT_SCHEMA,
        "parameters": {"type": "object", "$ref": "#/$defs/P", "$defs": {"P": {}}},
        "outputs": {},
    }
    data = {"uri": "user:custom:tutor:latest", "schemas": schemas, "parameters": {"temperature": 0.2}}
    app = start_service(
        {
            "POST /inspect": {
                "flags": {"is_chat": True},
                "revision": {
                    "slug": "tutor",
                    "name": "Tutor",
                    "description": "Explains\x1b[2J a subject.",
                    "data": data,
                },
                "request": {"flags": {"is_chat": True}},
                "meta": {"palaver": {"streams": True}},
            }
        }
    )

    assert await discover(app.url) == Discovery(
        url=app.url,
        is_chat=True,
        evidence="inspect.flags",
        confidence="declared",
        dialect="invoke",
        call=f"POST {app.url}/invoke",
        streams=True,
        schemas=schemas,
        warnings=(),
        tried=(ProbeStep("inspect.flags", "POST /inspect", 200, "flags.is_chat = true"),),
        parameters={"temperature": 0.2},
        name="Tutor",
        description="Explains\\x1b[2J a subject.",
    )


async def test_inspect_is_requested_with_get_if_post_is_not_allowed(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"POST /inspect": Answer(status=405), "GET /inspect": {"flags": {"is_chat": False}}})

    result = await discover(app.url)

    assert (result.is_chat, result.evidence, result.warnings) == (False, "inspect.flags", ())
    assert app.asked == ["POST /inspect", "GET /inspect"]


FLAGS = {"is_chat": True}
REF = {"$ref": "#/components/schemas/Body"}


@pytest.mark.parametrize(
    ("table", "expected", "last_step"),
    [
        pytest.param(
            {"GET /openapi.json": openapi("/run", "/invoke", flags=FLAGS)},
            ("openapi.flags", True, "declared", "invoke", "/invoke"),
            ProbeStep("openapi.flags", "GET /openapi.json", 200, "x-agenta.flags.is_chat of POST /invoke = true"),
            id="x-agenta of invoke",
        ),
        pytest.param(
            {"GET /openapi.json": openapi("/run", "/test", flags={"is_chat": False})},
            ("openapi.flags", False, "declared", "run", "/run"),
            ProbeStep("openapi.flags", "GET /openapi.json", 200, "x-agenta.flags.is_chat of POST /run = false"),
            id="x-agenta of run",
        ),
        pytest.param(
            {"GET /openapi.json": openapi("/test", flags=FLAGS)},
            ("openapi.flags", True, "declared", "run", "/test"),
            ProbeStep("openapi.flags", "GET /openapi.json", 200, "x-agenta.flags.is_chat of POST /test = true"),
            id="x-agenta of test",
        ),
        pytest.param(
            {"POST /inspect": inspect_document(MARKED_SCHEMA)},
            ("schema.marker", True, "marked", "invoke", "/invoke"),
            ProbeStep("schema.marker", None, None, "the input turns is marked as messages"),
            id="marker in inspect",
        ),
        pytest.param(
            {"GET /openapi.json": openapi("/run", body={"properties": {"inputs": MARKED_SCHEMA}})},
            ("schema.marker", True, "marked", "run", "/run"),
            ProbeStep("schema.marker", None, None, "the input turns is marked as messages"),
            id="marker in the inputs of the body",
        ),
        pytest.param(
            {"POST /inspect": inspect_document(FORM_SCHEMA), "GET /openapi.json": openapi("/run", body=MARKED_SCHEMA)},
            ("schema.marker", True, "marked", "invoke", "/invoke"),
            ProbeStep("schema.marker", None, None, "the input turns is marked as messages"),
            id="marker in one document of two",
        ),
        pytest.param(
            {"POST /inspect": inspect_document(CHAT_SCHEMA)},
            ("schema.messages", True, "guessed", "invoke", "/invoke"),
            ProbeStep("schema.messages", None, None, "the input schema has a 'messages' property"),
            id="messages in inspect",
        ),
        pytest.param(
            {"POST /inspect": inspect_document(FORM_SCHEMA)},
            ("schema.messages", False, "guessed", "invoke", "/invoke"),
            ProbeStep("schema.messages", None, None, "the input schema has no 'messages' property"),
            id="no messages in inspect",
        ),
        pytest.param(
            {"GET /openapi.json": openapi("/run", body=REF, components={"schemas": {"Body": CHAT_SCHEMA}})},
            ("schema.messages", True, "guessed", "run", "/run"),
            ProbeStep("schema.messages", None, None, "the input schema has a 'messages' property"),
            id="messages of the body, by a local ref",
        ),
        pytest.param(
            {
                "GET /openapi.json": openapi(
                    "/invoke",
                    body={"properties": {"data": {"anyOf": [REF, {"type": "null"}]}}},
                    components={"schemas": {"Body": {"properties": {"inputs": CHAT_SCHEMA}}}},
                )
            },
            ("schema.messages", True, "guessed", "invoke", "/invoke"),
            ProbeStep("schema.messages", None, None, "the input schema has a 'messages' property"),
            id="messages of data.inputs, by an optional ref",
        ),
        pytest.param(
            {"GET /openapi.json": openapi("/run", body=FORM_SCHEMA)},
            ("schema.messages", False, "guessed", "run", "/run"),
            ProbeStep("schema.messages", None, None, "the input schema has no 'messages' property"),
            id="no messages in the body",
        ),
        pytest.param(
            {"GET /agent/info": {"name": "agent", "agent_api": "responses"}},
            ("mlflow.info", True, "declared", "responses", "/invocations"),
            ProbeStep("mlflow.info", "GET /agent/info", 200, 'agent_api = "responses"'),
            id="mlflow",
        ),
        pytest.param(
            {"GET /v1/models": {"object": "list", "data": [{"id": "small"}]}},
            ("openai.models", True, "assumed", "chat-completions", "/v1/chat/completions"),
            ProbeStep("openai.models", "GET /v1/models", 200, "1 model"),
            id="openai",
        ),
    ],
)
async def test_the_first_step_with_evidence_decides(
    start_service: Callable[..., FakeService], table: dict[str, Any], expected: tuple[Any, ...], last_step: ProbeStep
) -> None:
    app = start_service(table)

    result = await discover(app.url)

    call = f"POST {app.url}{expected[-1]}"
    assert (result.evidence, result.is_chat, result.confidence, result.dialect, result.call) == (*expected[:-1], call)
    assert result.tried[-1] == last_step
    assert result.warnings == ()


MODELS = {"object": "list", "data": [{"id": "small"}]}


@pytest.mark.parametrize(
    ("path", "table", "expected"),
    [
        ("/v1", {"GET /v1/models": MODELS}, ("chat-completions", "/v1/chat/completions")),
        ("/v1/responses", {"GET /v1/models": MODELS}, ("responses", "/v1/responses")),
        ("/v1/chat/completions", {"GET /v1/models": MODELS}, ("chat-completions", "/v1/chat/completions")),
        ("/responses", {"GET /agent/info": {"agent_api": "responses"}}, ("responses", "/responses")),
        ("/invocations", {"GET /agent/info": {"agent_api": "responses"}}, ("responses", "/invocations")),
    ],
)
async def test_the_url_selects_among_the_dialects_of_a_server(
    start_service: Callable[..., FakeService], path: str, table: dict[str, Any], expected: tuple[str, str]
) -> None:
    app = start_service(table)

    result = await discover(app.url + path)

    assert (result.dialect, result.call) == (expected[0], f"POST {app.url}{expected[1]}")


async def test_a_service_without_evidence_gives_an_empty_result(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"GET /openapi.json": openapi("/pets"), "GET /agent/info": {"name": "agent"}})

    assert await discover(app.url) == Discovery(
        url=app.url,
        is_chat=None,
        evidence="none",
        confidence=None,
        dialect=None,
        call=None,
        streams=None,
        schemas={},
        warnings=(),
        tried=(
            *NO_INSPECT,
            ProbeStep(
                "openapi.flags",
                "GET /openapi.json",
                200,
                "no x-agenta.flags.is_chat of POST /invoke, /run, /test, /generate",
            ),
            ProbeStep("mlflow.info", "GET /agent/info", 200, 'no agent_api = "responses"'),
            NO_MODELS,
        ),
    )


async def test_operations_below_the_base_path_are_preferred(
    start_service: Callable[..., FakeService],
) -> None:
    document = openapi("/app/run", flags={"is_chat": False})
    document["paths"]["/invoke"] = {"post": {"x-agenta": {"flags": {"is_chat": True}}}}
    app = start_service({"GET /app/openapi.json": document})

    result = await discover(f"{app.url}/app")

    assert (result.is_chat, result.dialect, result.call) == (False, "run", f"POST {app.url}/app/run")


async def test_references_in_the_input_schema_of_openapi_are_resolved(
    start_service: Callable[..., FakeService],
) -> None:
    node = {"properties": {"child": {"$ref": "#/components/schemas/Node"}, "label": {"$ref": "#/components/schemas/L"}}}
    body = {"properties": {"messages": {"type": "array"}, "inputs": {"$ref": "#/components/schemas/Node"}}}
    components = {"schemas": {"Node": node, "L": {"type": "string"}}}
    app = start_service({"GET /openapi.json": openapi("/run", body=body, components=components)})

    result = await discover(app.url)

    assert result.schemas == {
        "inputs": {"properties": {"messages": {"type": "array"}, "child": {}, "label": {"type": "string"}}}
    }


async def test_a_service_with_only_a_generate_endpoint_is_found_but_not_callable(
    start_service: Callable[..., FakeService],
) -> None:
    app = start_service({"GET /openapi.json": openapi("/generate", flags=FLAGS)})

    result = await discover(app.url)

    assert (result.is_chat, result.dialect, result.call) == (True, None, None)
    assert result.warnings == ("Could not identify the protocol of /generate. Specify it with the 'dialect' option.",)
    with pytest.raises(NotDiscovered, match=r"uses an unsupported protocol\. Tried: "):
        require_callable(result)


# Flags


async def test_a_declared_false_beats_a_messages_schema(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"POST /inspect": inspect_document(MARKED_SCHEMA, flags={"is_chat": False})})

    result = await discover(app.url)

    assert (result.is_chat, result.evidence, result.confidence) == (False, "inspect.flags", "declared")
    assert result.warnings == (
        "inspect.flags declares is_chat = false, but the schema has messages. The declaration is used.",
    )


async def test_a_false_flag_in_openapi_beats_the_schema_of_inspect(start_service: Callable[..., FakeService]) -> None:
    app = start_service(
        {
            "POST /inspect": inspect_document(CHAT_SCHEMA),
            "GET /openapi.json": openapi("/invoke", flags={"is_chat": False}),
        }
    )

    result = await discover(app.url)

    assert (result.is_chat, result.evidence, result.confidence) == (False, "openapi.flags", "declared")
    assert result.warnings == (
        "openapi.flags declares is_chat = false, but the schema has messages. The declaration is used.",
    )


@pytest.mark.parametrize("value", ["true", 1, 0, None, [], {"is_chat": True}])
async def test_a_flag_that_is_not_a_boolean_is_ignored_with_a_warning(
    start_service: Callable[..., FakeService], value: object
) -> None:
    app = start_service({"POST /inspect": {"flags": {"is_chat": value}, "request": {"flags": {"is_chat": False}}}})

    result = await discover(app.url)

    assert (result.is_chat, result.tried[-1].found) == (False, "request.flags.is_chat = false")
    assert result.warnings == ("flags.is_chat is not a boolean and was ignored.",)


_OPEN_SCHEMA = {"type": "object", "additionalProperties": True}
_NO_FLAG = "The service does not declare flags.is_chat, so it is not a chat. Pass is_chat=True if it is one."


@pytest.mark.parametrize(
    ("documents", "evidence", "call"),
    [
        ({"POST /inspect": inspect_document(_OPEN_SCHEMA)}, "inspect.flags", "/invoke"),
        ({"POST /inspect": {"version": "1", "revision": {"slug": "far"}}}, "inspect.flags", "/invoke"),
        ({"GET /inspect": {"request": {"flags": {"is_custom": True}}}}, "inspect.flags", "/invoke"),
        ({"GET /openapi.json": openapi("/run")}, "openapi.flags", "/run"),
        (
            {"POST /inspect": inspect_document({}), "GET /v1/models": {"data": [{"id": "m"}]}},
            "inspect.flags",
            "/invoke",
        ),
    ],
)
async def test_an_agenta_service_that_declares_no_flag_is_not_a_chat(
    start_service: Callable[..., FakeService], documents: dict[str, Any], evidence: str, call: str
) -> None:
    app = start_service(documents)

    result = require_callable(await discover(app.url))

    assert (result.is_chat, result.evidence, result.confidence) == (False, evidence, "assumed")
    assert (result.call, result.warnings) == (f"POST {app.url}{call}", (_NO_FLAG,))
    assert require_callable(await discover(app.url), is_chat=True).is_chat is True


async def test_contradictory_flags_are_warned_about_and_the_first_is_used(
    start_service: Callable[..., FakeService],
) -> None:
    app = start_service({"POST /inspect": {"flags": {"is_chat": True}, "request": {"flags": {"is_chat": False}}}})

    result = await discover(app.url)

    assert result.is_chat is True
    assert result.warnings == ("flags.is_chat = true, but request.flags.is_chat = false. The first value is used.",)


async def test_contradictory_flags_of_operations_are_warned_about_and_the_first_is_used(
    start_service: Callable[..., FakeService],
) -> None:
    document = openapi("/run", flags={"is_chat": False})
    document["paths"] |= openapi("/invoke", flags={"is_chat": True})["paths"]
    app = start_service({"GET /openapi.json": document})

    result = await discover(app.url)

    assert result.is_chat is True
    flag_path = "x-agenta.flags.is_chat of POST"
    assert result.warnings == (f"{flag_path} /invoke = true, but {flag_path} /run = false. The first value is used.",)


# Models


async def test_the_models_of_a_base_url_that_ends_in_v1_are_requested_there(
    start_service: Callable[..., FakeService],
) -> None:
    app = start_service({"GET /v1/models": {"data": [{"id": "small"}, {"id": "large"}]}})

    result = await discover(f"{app.url}/v1/", model="large")

    assert (result.url, result.call) == (f"{app.url}/v1", f"POST {app.url}/v1/chat/completions")
    assert (result.models, result.model, result.warnings) == (("small", "large"), "large", ())
    assert app.asked[-1] == "GET /v1/models"


async def test_a_model_that_is_not_listed_is_used_with_a_warning(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"GET /v1/models": {"data": [{"id": "small"}]}})

    result = await discover(app.url, model="latest")

    assert (result.model, result.warnings) == ("latest", ("The service does not list the model 'latest'.",))


async def test_one_of_several_models_must_be_chosen(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"GET /v1/models": {"data": [{"id": "small"}, {"id": "large"}, {"id": "\x1b[2J"}, {"id": 3}]}})

    result = await discover(app.url)

    assert (result.evidence, result.models, result.model) == ("openai.models", ("small", "large"), None)
    message = r"has several models\. Specify one with the 'model' option: small, large\.$"
    with pytest.raises(NotDiscovered, match=message):
        require_callable(result)
    assert require_callable(result, model="large").model == "large"


@pytest.mark.parametrize("document", [{"data": []}, {"data": None}, {"data": [{"name": "x"}, "y"]}, {"models": []}])
async def test_a_list_without_models_is_no_evidence(
    start_service: Callable[..., FakeService], document: object
) -> None:
    app = start_service({"GET /v1/models": document})

    result = await discover(app.url)

    assert (result.evidence, result.tried[-1]) == (
        "none",
        ProbeStep("openai.models", "GET /v1/models", 200, "no models"),
    )


# URLs


@pytest.mark.parametrize(
    "ending", ["/invoke", "/inspect", "/run", "/test", "/responses", "/invocations", "/chat/completions", "/invoke/"]
)
async def test_an_endpoint_url_is_cut_to_its_base_with_a_warning(
    start_service: Callable[..., FakeService], ending: str
) -> None:
    app = start_service({"POST /app/inspect": {"flags": {"is_chat": True}}})

    result = await discover(f"{app.url}/app{ending}")

    assert (result.url, result.call) == (f"{app.url}/app", f"POST {app.url}/app/invoke")
    assert result.warnings == (f"The URL ends in {ending.rstrip('/')}; using the base URL {app.url}/app.",)


async def test_the_endpoint_in_the_url_is_called_unless_the_service_names_another(
    start_service: Callable[..., FakeService],
) -> None:
    app = start_service(
        {"GET /a/v1/models": {"data": [{"id": "m"}]}, "GET /b/agent/info": {"agent_api": "responses"}},
    )

    completions = await discover(f"{app.url}/a/chat/completions")
    agent = await discover(f"{app.url}/b/invocations")

    assert completions.call == f"POST {app.url}/a/chat/completions"
    assert agent.call == f"POST {app.url}/b/invocations"


async def test_a_host_may_have_the_name_of_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **kwargs: object) -> object:
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    result = await discover("http://test/")
    other = await discover("http://v1/")

    assert (result.url, result.endpoint, result.unreachable) == ("http://test", None, True)
    assert other.tried[-1].request == "GET /v1/models"


async def test_the_query_of_a_url_is_dropped_and_never_shown(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"POST /inspect": {"flags": {"is_chat": True}}})

    result = await discover(f"{app.url}/?key=hunter2#top")

    assert (result.url, result.warnings) == (app.url, ("The query string of the URL is ignored.",))
    assert app.asked == ["POST /inspect"]


async def test_a_url_of_another_scheme_is_refused() -> None:
    with pytest.raises(UrlRefused):
        await discover("ftp://host")


# Failures


@pytest.mark.parametrize("status", [401, 403])
async def test_probing_stops_at_a_service_that_requires_credentials(
    start_service: Callable[..., FakeService], status: int
) -> None:
    app = start_service({"POST /inspect": Answer(status=status), "GET /v1/models": {"data": [{"id": "m"}]}})

    result = await discover(app.url)

    assert (result.evidence, result.is_chat, result.refused) == ("none", None, True)
    assert result.tried == (ProbeStep("inspect.flags", "POST /inspect", status, "requires credentials"),)
    assert result.warnings == ("/inspect requires credentials. Pass them as headers.",)
    with pytest.raises(DiscoveryRefused, match=r"^/inspect requires credentials\. Pass them as headers\.$"):
        require_callable(result)


async def test_probing_stops_at_a_later_step_that_requires_credentials(
    start_service: Callable[..., FakeService],
) -> None:
    app = start_service({"GET /agent/info": Answer(status=401), "GET /v1/models": {"data": [{"id": "m"}]}})

    result = await discover(app.url)

    assert (result.refused, app.asked[-1]) == (True, "GET /agent/info")
    with pytest.raises(DiscoveryRefused, match=r"^/agent/info requires credentials\. Pass them as headers\.$"):
        require_callable(result)


async def test_headers_are_sent_and_appear_in_no_result(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"POST /inspect": {"flags": {"is_chat": True}}})

    result = await discover(app.url, headers={"authorization": "Bearer hunter2"})

    headers, body = app.received[0]
    assert (headers["authorization"], headers["content-type"], body) == ("Bearer hunter2", "application/json", b"{}")
    assert "hunter2" not in repr(result)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(status=500), "returned status 500"),
        (Answer(status=503), "returned status 503"),
        (Answer(status=429), "returned status 429"),
        (Answer(b"<html>"), "not a JSON object"),
        (Answer(b'{"a": "\xff"}'), "not a JSON object"),
        (Answer(b"[" * 100_000), "not a JSON object"),
        (Answer([{"flags": {"is_chat": False}}]), "not a JSON object"),
        (Answer(b"{}", headers={"content-length": "99"}), "the connection was lost"),
        (
            Answer(b'{"flags": {"is_chat": false}}' + b" " * 1024 * 1024),
            "The response from the remote service exceeds the limit of 1,048,576 bytes",
        ),
        (
            Answer(b"", headers={"content-encoding": "gzip"}),
            "The remote service sent a response with content-encoding gzip, which is not supported",
        ),
        (
            Answer(status=307, headers={"location": "/elsewhere/inspect"}),
            "redirects to '/elsewhere/inspect', which is not followed",
        ),
        (
            Answer(status=302, headers={"location": "http://xn--a/\x7f"}),
            "redirects to 'http://xn--a/\\x7f', which is not followed",
        ),
        (Answer(status=302, headers={"location": "mailto:x"}), "redirects to 'mailto:x', which is not followed"),
        (Answer(pace="never"), "no response within 0.5 s"),
        (Answer(pace="dripping"), "no response within 0.5 s"),
    ],
    ids="500 503 429 html latin-1 deep list cut large gzip redirect nowhere mail silent dripping".split(),
)
async def test_weaker_evidence_is_used_after_a_failed_step_with_a_warning(
    start_service: Callable[..., FakeService], answer: Answer, problem: str
) -> None:
    app = start_service({"POST /inspect": answer, "GET /openapi.json": openapi("/invoke", flags={"is_chat": True})})

    result = await discover(app.url, request_seconds=5 if answer.pace == "at once" else 0.5)

    assert (result.is_chat, result.evidence, result.unreachable) == (True, "openapi.flags", False)
    assert result.warnings == (f"Detection may be incomplete: POST /inspect: {problem}.",)
    assert result.tried[0].found == problem
    assert app.asked == ["POST /inspect", "GET /openapi.json"]


async def test_a_document_of_one_mebibyte_is_read(start_service: Callable[..., FakeService]) -> None:
    document = b'{"flags": {"is_chat": true}}'
    app = start_service({"POST /inspect": Answer(document + b" " * (1024 * 1024 - len(document)))})

    assert (await discover(app.url)).is_chat is True


async def test_no_url_in_a_document_is_followed(start_service: Callable[..., FakeService]) -> None:
    trap = start_service({"GET /schema.json": CHAT_SCHEMA})
    external_ref = {"$ref": f"{trap.url}/schema.json"}
    app = start_service(
        {
            "POST /inspect": {
                "revision": {"data": {"url": trap.url, "schemas": {"inputs": {"title": "x", **external_ref}}}}
            },
            "GET /openapi.json": openapi("/run", body=external_ref, servers=[{"url": trap.url}]),
        }
    )

    result = await discover(app.url)

    assert (result.is_chat, trap.asked) == (False, [])
    assert result.warnings[0] == "'inputs' has a $ref to another document, which was not followed."


async def test_no_request_is_sent_after_the_total_timeout(start_service: Callable[..., FakeService]) -> None:
    app = start_service({"POST /inspect": Answer(pace="never")})

    result = await discover(app.url, request_seconds=5, total_seconds=0.3)

    assert app.asked == ["POST /inspect"]
    assert [step.found for step in result.tried] == [
        "no response within 0.3 s",
        *["skipped: the time limit was reached"] * 3,
    ]


async def test_a_service_that_is_down_is_reported_as_unreachable(unreachable_url: str) -> None:
    result = await discover(unreachable_url)

    assert (result.evidence, result.is_chat, result.unreachable, result.refused) == ("none", None, True, False)
    assert [(step.request, step.status) for step in result.tried] == [
        ("POST /inspect", None),
        ("GET /openapi.json", None),
        ("GET /agent/info", None),
        ("GET /v1/models", None),
    ]
    assert all(step.found.startswith("connection failed: ") for step in result.tried)
    assert result.warnings == (f"Cannot reach {unreachable_url}.",)
    with pytest.raises(NotDiscovered, match=r"cannot be reached\. Tried: POST /inspect: connection failed: "):
        require_callable(result)


async def test_a_service_that_only_answers_502_is_unreachable(start_service: Callable[..., FakeService]) -> None:
    requests = ("POST /inspect", "GET /openapi.json", "GET /agent/info", "GET /v1/models")
    app = start_service({request: Answer(status=502) for request in requests})

    assert (await discover(app.url)).unreachable is True


async def test_a_service_that_only_answers_500_is_reachable(start_service: Callable[..., FakeService]) -> None:
    requests = ("POST /inspect", "GET /openapi.json", "GET /agent/info", "GET /v1/models")
    app = start_service({request: Answer(status=500) for request in requests})

    result = await discover(app.url)

    assert (result.unreachable, result.evidence) == (False, "none")
    assert result.warnings == tuple(
        f"Detection may be incomplete: {request}: returned status 500." for request in requests
    )


# Requiring a callable service

UNKNOWN = Discovery(
    url="http://host/app",
    is_chat=None,
    evidence="none",
    confidence=None,
    dialect=None,
    call=None,
    streams=None,
    schemas={},
    warnings=(),
    tried=(*NO_INSPECT, NO_OPENAPI, NO_INFO, NO_MODELS),
)
KNOWN = msgspec.structs.replace(
    UNKNOWN,
    is_chat=True,
    evidence="schema.messages",
    confidence="guessed",
    dialect="invoke",
    call="POST http://host/app/invoke",
)


def test_the_error_for_an_unknown_service_lists_all_attempts_and_a_remedy() -> None:
    with pytest.raises(NotDiscovered) as caught:
        require_callable(UNKNOWN)

    assert caught.value.message == (
        "http://host/app could not be identified. Tried: POST /inspect: not found; GET /inspect: not found; "
        "GET /openapi.json: not found; GET /agent/info: not found; GET /v1/models: not found. "
        "Specify 'dialect' and 'is_chat' if you know them."
    )
    assert caught.value.details["tried"][0] == {
        "step": "inspect.flags",
        "request": "POST /inspect",
        "status": 404,
        "found": "not found",
    }


@pytest.mark.parametrize("given", [{"is_chat": True}, {"dialect": "invoke"}, {"dialect": "run"}])
def test_a_dialect_or_a_chat_flag_alone_is_not_enough_for_an_unknown_service(given: dict[str, Any]) -> None:
    with pytest.raises(NotDiscovered):
        require_callable(UNKNOWN, **given)


def test_a_discovered_service_needs_no_options() -> None:
    assert require_callable(KNOWN) == KNOWN


def test_options_override_the_discovery_with_a_warning() -> None:
    assert require_callable(KNOWN, is_chat=False, dialect="run") == msgspec.structs.replace(
        KNOWN,
        is_chat=False,
        confidence="declared",
        dialect="run",
        call="POST http://host/app/run",
        warnings=(
            "is_chat=False overrides the value found by schema.messages.",
            "dialect=run overrides the discovered dialect invoke.",
        ),
    )


@pytest.mark.parametrize(
    ("given", "call", "confidence"),
    [
        ({"dialect": "invoke", "is_chat": True}, "POST http://host/app/invoke", "declared"),
        ({"dialect": "responses"}, "POST http://host/app/v1/responses", "assumed"),
        ({"dialect": "chat-completions", "model": "m"}, "POST http://host/app/v1/chat/completions", "assumed"),
    ],
)
def test_sufficient_options_need_no_evidence(given: dict[str, Any], call: str, confidence: str) -> None:
    result = require_callable(msgspec.structs.replace(UNKNOWN, refused=True), **given)

    assert (result.is_chat, result.call, result.confidence) == (True, call, confidence)


def test_chat_completions_require_a_model() -> None:
    with pytest.raises(NotDiscovered, match="requires a model name"):
        require_callable(UNKNOWN, dialect="chat-completions")


def test_responses_require_a_model_if_there_are_several() -> None:
    several = msgspec.structs.replace(UNKNOWN, models=("a", "b"))

    with pytest.raises(NotDiscovered, match=r"has several models\. Specify one with the 'model' option: a, b\."):
        require_callable(several, dialect="responses")
    assert require_callable(several, dialect="responses", model="b").model == "b"


def test_an_unsupported_dialect_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"Unknown dialect 'soap'\. Available: invoke, run, "):
        require_callable(KNOWN, dialect="soap")  # pyright: ignore[reportArgumentType]: it comes from a settings file.


# Untrusted documents

DEEP: Any = {}
for _ in range(5_000):
    DEEP = {"properties": {"inputs": DEEP}, "anyOf": [DEEP]}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/components/schemas/Body"},
        {"allOf": [{"$ref": "#/components/schemas/Body"}] * 100},
        {"properties": {"inputs": {"$ref": "#/paths"}, "data": {"$ref": "#/paths/~1run"}}},
        {"properties": [], "anyOf": {}, "$ref": 7},
        DEEP,
    ],
    ids=["root", "itself", "itself often", "elsewhere", "wrong types", "deep"],
)
def test_circular_dangling_and_deep_schemas_give_a_result_of_limited_size(schema: Any) -> None:
    document = openapi("/run", body=schema, components={"schemas": {"Body": schema}})

    for parsed in (read_openapi(document), read_inspect(inspect_document(schema))):
        assert len(msgspec.json.encode(parsed)) < 200_000


def test_a_schema_that_expands_exponentially_is_left_out_with_a_warning() -> None:
    bombs = {f"B{n}": {"properties": {k: {"$ref": f"#/c/B{n + 1}"} for k in "abcdefgh"}} for n in range(12)}

    parsed = read_openapi(openapi("/run", body={"$ref": "#/c/B0"}, c=bombs))

    assert (parsed.takes_messages, parsed.schemas) == (False, {})
    assert parsed.warnings == ("'inputs' is too large or too deeply nested and was ignored.",)


def test_the_name_of_a_service_is_truncated_and_escaped() -> None:
    parsed = read_inspect({"revision": {"name": "\u202e" + "x" * 500, "description": ["no", "text"]}})

    assert (parsed.name, parsed.description) == ("\\u202e" + "x" * 198 + "…", "")


KEYS = st.sampled_from(
    "flags is_chat request revision data schemas inputs parameters properties messages $ref paths /invoke /run post "
    "requestBody content application/json schema anyOf allOf x-agenta x-ag-type-ref id agent_api info title".split()
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["#", "#/", "#/paths", "#/paths/~1run/post", "https://host/x", "messages", "responses"])
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6)
)


@given(document=JSON, base_path=st.sampled_from(["", "/app"]))
def test_no_json_makes_a_reader_raise(document: object, base_path: str) -> None:
    for parsed in (
        read_inspect(document),
        read_openapi(document, base_path),
        read_agent_info(document),
        read_models(document),
    ):
        assert msgspec.json.decode(msgspec.json.encode(parsed), type=DocumentFacts) == parsed


@given(schema=JSON)
def test_no_schema_makes_a_reader_raise(schema: object) -> None:
    for parsed in (
        read_inspect(inspect_document(schema)),
        read_openapi(openapi("/run", body=schema, components=schema)),
        read_openapi(openapi("/invoke", body={"properties": {"data": {"properties": {"inputs": schema}}}})),
    ):
        assert msgspec.json.decode(msgspec.json.encode(parsed), type=DocumentFacts) == parsed

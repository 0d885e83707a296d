"""`connect(url)` against real servers."""

import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from palaver import connect
from palaver.core.descriptions import Description
from palaver.discovery import connections
from palaver.errors import (
    DiscoveryRefused,
    InvalidName,
    InvalidOption,
    NotDiscovered,
    PalaverError,
    UrlRefused,
)
from palaver.testing import client, echo, scripted
from tests.frameworks.fake_servers import ReceivedRequest, fake_server, full_response, serve_workflows

MESSAGE = {"role": "assistant", "content": "Hi"}
CHAT = {"flags": {"is_chat": True}}


@pytest.fixture(scope="module")
def palaver_url() -> Iterator[str]:
    with serve_workflows(scripted, echo) as url:
        yield url


@pytest.fixture
def unreachable_url() -> str:
    """A URL where no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def answer_by_path(**answers: Any) -> Any:
    """Responses of a fake server by the last part of the path; 404 elsewhere."""

    def answer(connection: socket.socket, request: ReceivedRequest) -> None:
        name = request.line.split(" ")[1].rpartition("/")[2]
        result = answers.get(name, answers.get(name.replace(".", "_")))
        connection.sendall(full_response({}, status="404 Not Found") if result is None else result)

    return answer


# Discovered services


def test_a_connected_palaver_chat_has_the_description_of_the_remote_one(palaver_url: str) -> None:
    remote = connect(f"{palaver_url}/scripted")

    assert remote.reachable
    assert remote.place == f"{palaver_url}/scripted"
    assert remote.description == Description(
        name="scripted",
        description=scripted.description.description,
        flags={"is_chat": True},
        is_chat_source="declared",
        schemas=scripted.description.schemas,
        parameters={},
        streams=True,
        remote=True,
    )


async def test_a_connected_workflow_is_served_like_a_local_one(palaver_url: str) -> None:
    remote = connect(f"{palaver_url}/scripted/invoke", name="far")

    async with client(remote, connect(f"{palaver_url}/echo")) as http:
        chat = await http.post("/far/invoke", json={"messages": [{"role": "user", "content": "Hello there"}]})
        value = await http.post("/echo/invoke", json={"inputs": {"a": [1, None]}})
        description = (await http.get("/far/inspect")).json()

    assert chat.json() == {"role": "assistant", "content": "Hello there"}
    assert value.json() == {"a": [1, None]}
    assert description["flags"] == {"is_chat": True}
    assert description["meta"]["palaver"]["streams"] is True


async def test_connect_works_inside_a_running_event_loop(palaver_url: str) -> None:
    assert connect(f"{palaver_url}/echo").description.is_chat is False


async def test_a_server_that_does_not_declare_streaming_is_called_with_accept_any() -> None:
    with fake_server(
        answer_by_path(inspect=full_response(CHAT), invoke=full_response({"data": {"outputs": MESSAGE}}))
    ) as server:
        remote = connect(f"{server.url}/tutor", headers={"authorization": "Bearer far"})
        async with client(remote) as http:
            answer = await http.post("/tutor/invoke", json={"messages": []})

    assert answer.json() == MESSAGE
    assert [(call.line, call.headers["authorization"]) for call in server.requests] == [
        ("POST /tutor/inspect HTTP/1.1", "Bearer far"),
        ("POST /tutor/invoke HTTP/1.1", "Bearer far"),
    ]
    assert server.requests[1].headers["accept"] == "*/*"


async def test_a_service_with_only_a_run_endpoint_is_called_there() -> None:
    operation = {"post": {"x-agenta": {"flags": {"is_chat": False}}}}
    with fake_server(
        answer_by_path(
            openapi_json=full_response({"paths": {"/app/run": operation}}),
            run=full_response({"version": "3.0", "data": "Hi"}),
        )
    ) as server:
        remote = connect(f"{server.url}/app")
        async with client(remote) as http:
            answer = await http.post("/app/invoke", json={"inputs": {"text": "?"}})

    assert remote.description.is_chat is False
    assert answer.json() == "Hi"
    assert server.requests[-1].line == "POST /app/run HTTP/1.1"


async def test_an_mlflow_agent_is_called_at_invocations() -> None:
    response = {"output": [{"type": "message", "id": "m", "role": "assistant", "content": [{"text": "Hi"}]}]}
    with fake_server(
        answer_by_path(
            info=full_response({"name": "agent", "agent_api": "responses"}), invocations=full_response(response)
        )
    ) as server:
        remote = connect(f"{server.url}/agents/tutor")
        async with client(remote) as http:
            answer = await http.post("/tutor/invoke", json={"session_id": "s-1", "messages": [MESSAGE]})

    described = remote.description
    assert (described.is_chat, described.is_chat_source, described.streams) == (True, "declared", True)
    assert answer.json() == {"role": "assistant", "content": "Hi"}
    assert (server.requests[-1].line, server.requests[-1].body) == (
        "POST /agents/tutor/invocations HTTP/1.1",
        {
            "input": [{"type": "message", "role": "assistant", "content": "Hi"}],
            "stream": True,
            "store": False,
            "context": {"conversation_id": "s-1"},
        },
    )


@pytest.mark.parametrize(
    ("url", "options", "expected_path", "body"),
    [
        (
            "/v1",
            {"model": "large"},
            "/v1/chat/completions",
            {
                "model": "large",
                "messages": [{"role": "user", "content": "Why?"}],
                "stream": True,
                "stream_options": {"include_usage": True},
            },
        ),
        (
            "",
            {"model": "large", "dialect": "responses"},
            "/v1/responses",
            {
                "model": "large",
                "input": [{"type": "message", "role": "user", "content": "Why?"}],
                "stream": True,
                "store": False,
            },
        ),
        (
            "/v1/responses",
            {"model": "large"},
            "/v1/responses",
            {
                "model": "large",
                "input": [{"type": "message", "role": "user", "content": "Why?"}],
                "stream": True,
                "store": False,
            },
        ),
    ],
    ids=["chat completions", "responses, as the operator says", "responses, as the URL says"],
)
async def test_a_model_server_is_called_with_the_chosen_model(
    url: str, options: dict[str, Any], expected_path: str, body: dict[str, Any]
) -> None:
    completion = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
    response = {"output": [{"type": "message", "id": "m", "role": "assistant", "content": [{"text": "Hi"}]}]}
    models = full_response({"data": [{"id": "small"}, {"id": "large"}]})
    with fake_server(
        answer_by_path(models=models, completions=full_response(completion), responses=full_response(response))
    ) as server:
        remote = connect(f"{server.url}{url}", name="far", **options)
        async with client(remote) as http:
            answer = await http.post("/far/invoke", json={"messages": [{"role": "user", "content": "Why?"}]})

    assert (remote.description.is_chat, remote.description.is_chat_source) == (True, "derived")
    assert answer.json() == {"role": "assistant", "content": "Hi"}
    assert (server.requests[-1].line, server.requests[-1].body) == (f"POST {expected_path} HTTP/1.1", body)


def test_a_guessed_chat_flag_is_marked_as_derived() -> None:
    schemas = {"inputs": {"properties": {"messages": {"type": "array"}}}, "other": {}}
    with fake_server(
        answer_by_path(inspect=full_response({"revision": {"data": {"schemas": schemas, "parameters": {"t": 1}}}}))
    ) as server:
        description = connect(server.url, name="far").description

    assert (description.is_chat, description.is_chat_source) == (True, "derived")
    assert description.schemas.inputs == {"type": "object", "additionalProperties": True, **schemas["inputs"]}
    assert description.parameters == {"t": 1}


def test_a_given_chat_flag_overrides_the_discovered_one_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with fake_server(answer_by_path(inspect=full_response(CHAT))) as server:
        remote = connect(server.url, name="far", is_chat=False)

    assert (remote.description.is_chat, remote.description.is_chat_source) == (False, "declared")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("palaver.discovery", "far: is_chat=False overrides the value found by inspect.flags.")
    ]


def test_warnings_of_the_discovery_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    document = {"flags": {"is_chat": True}, "request": {"flags": {"is_chat": False}}}
    with fake_server(answer_by_path(inspect=full_response(document))) as server:
        connect(server.url, name="far")

    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "The first value is used" in caplog.text


# Services that cannot be called or reached


@pytest.mark.parametrize(
    ("answers", "options", "error", "message"),
    [
        pytest.param({}, {}, NotDiscovered, "could not be identified", id="nothing"),
        pytest.param(
            {"inspect": full_response({}, status="401 Who")},
            {},
            DiscoveryRefused,
            "/inspect requires credentials. Pass them as headers.",
            id="credentials",
        ),
        pytest.param(
            {"models": full_response({"data": [{"id": "a"}, {"id": "b"}]})},
            {},
            NotDiscovered,
            "has several models. Specify one with the 'model' option: a, b.",
            id="several models",
        ),
        pytest.param(
            {"models": full_response({"data": [{"id": "a"}, {"id": "b"}]})},
            {"dialect": "responses"},
            NotDiscovered,
            "has several models. Specify one with the 'model' option: a, b.",
            id="several models for responses",
        ),
    ],
)
def test_a_service_that_cannot_be_called_is_rejected(
    answers: dict[str, bytes], options: dict[str, Any], error: type[PalaverError], message: str
) -> None:
    with fake_server(answer_by_path(**answers)) as server, pytest.raises(error) as refused:
        connect(server.url, name="far", **options)

    assert message in refused.value.message


@pytest.mark.parametrize(
    ("url", "options", "error"),
    [
        ("far", {}, UrlRefused),
        ("ftp://{host}/x", {}, UrlRefused),
        ("http://user:hunter2@{host}/x", {}, UrlRefused),
        ("http://{host}/a%20b", {}, InvalidName),
        ("http://[::1]:9/", {}, InvalidName),
        ("http://{host}/x", {"name": "a/b"}, InvalidName),
        ("http://{host}/x", {"dialect": "soap"}, InvalidOption),
        ("http://{host}/x", {"headers": {"x": "a\nhunter2"}}, InvalidOption),
    ],
)
def test_invalid_arguments_are_rejected_without_a_request_and_without_showing_secrets(
    url: str, options: dict[str, Any], error: type[PalaverError]
) -> None:
    with fake_server(answer_by_path(inspect=full_response(CHAT))) as server, pytest.raises(error) as refused:
        connect(url.replace("{host}", server.url.removeprefix("http://")), **options)

    assert "hunter2" not in refused.value.message
    assert server.requests == []


async def test_an_unreachable_service_is_served_and_answers_502(unreachable_url: str) -> None:
    remote = connect(f"{unreachable_url}/far?key=hunter2")

    assert not remote.reachable
    assert remote.description == Description(
        name="far",
        description="A remote service that is not available.",
        flags={"is_chat": False},
        is_chat_source="derived",
        remote=True,
    )
    assert remote.place == f"{unreachable_url}/far"
    async with client(remote) as http:
        answer = await http.post("/far/invoke", json={})
    assert (answer.status_code, answer.json()["status"]["message"]) == (502, "far could not be reached.")


async def test_an_unreachable_service_may_be_described_by_options(unreachable_url: str) -> None:
    described = connect(unreachable_url, name="far", dialect="invoke", is_chat=True)
    half_described = connect(unreachable_url, name="far", is_chat=True)

    assert (described.reachable, described.description.is_chat, described.description.is_chat_source) == (
        True,
        True,
        "declared",
    )
    assert (half_described.reachable, half_described.description.is_chat) == (False, True)
    async with client(described) as http:
        answer = await http.post("/far/invoke", json={"messages": []})
    assert (answer.status_code, answer.json()["status"]["message"]) == (502, "far could not be reached.")


# Names


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://host/tutor", "tutor"),
        ("https://host/apps/tutor/", "tutor"),
        ("https://host/tutor/invoke", "tutor"),
        ("https://host/tutor/v1/chat/completions", "tutor"),
        ("https://host/tutor/v1/responses?x=y#z", "tutor"),
        ("https://host/services/tutor", "tutor"),
        ("https://host/chat", "chat"),
        ("https://agents.example.org", "agents.example.org"),
        ("http://localhost:9000/", "localhost"),
        ("http://127.0.0.1:9000/invoke", "127.0.0.1"),
        ("https://host/v1", "host"),
    ],
)
def test_a_service_is_named_after_the_last_meaningful_part_of_its_url(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(asking: Any) -> None:
        asking.close()

    monkeypatch.setattr(connections, "_run_sync", never)

    assert connect(url).description.name == name

"""Stored objects of another project get byte for byte the same response as unknown ids."""

import re
from typing import Any
from uuid import uuid4

import httpx
import openai
import pytest

from tests.conformance.stored_server import StoredServer

UNKNOWN_IDS = {
    "response": "resp_01m7g98eye2836590c7b54bad4",
    "conversation": "conv_01m7g98eye2836590c7b54bad4",
    "item": "msg_01m7g98eye2836590c7b54bad4_1",
}
REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "/v1/responses/{response}", None),
    ("GET", "/v1/responses/{response}?stream=true", None),
    ("GET", "/v1/responses/{response}?stream=true&starting_after=1", None),
    ("GET", "/v1/responses/{response}/input_items", None),
    ("POST", "/v1/responses/{response}/cancel", None),
    ("DELETE", "/v1/responses/{response}", None),
    ("POST", "/v1/responses", {"model": "heard", "input": "Hi", "previous_response_id": "{response}"}),
    ("POST", "/v1/responses", {"model": "heard", "input": "Hi", "conversation": "{conversation}"}),
    ("POST", "/v1/responses", {"model": "heard", "input": [{"type": "item_reference", "id": "{item}"}]}),
    ("GET", "/v1/conversations/{conversation}", None),
    ("POST", "/v1/conversations/{conversation}", {"metadata": {"a": "b"}}),
    ("GET", "/v1/conversations/{conversation}/items", None),
    ("POST", "/v1/conversations/{conversation}/items", {"items": [{"role": "user", "content": "Hi"}]}),
    ("GET", "/v1/conversations/{conversation}/items/{item}", None),
    ("DELETE", "/v1/conversations/{conversation}/items/{item}", None),
    ("DELETE", "/v1/conversations/{conversation}", None),
]
"""Every route that names something stored."""


@pytest.mark.parametrize("prefix", ["", "/heard"])
@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
def test_another_projects_objects_are_answered_like_unknown_ones(
    keeper: StoredServer, method: str, path: str, body: Any, prefix: str
) -> None:
    with keeper.openai() as ours:
        conversation = ours.conversations.create()
        response = ours.responses.create(model="heard", input="Hello", conversation=conversation.id)
    names = {"response": response.id, "conversation": conversation.id, "item": response.output[0].id or ""}

    theirs = send_request(keeper.url + prefix, keeper.other_key, method, path, body, names)
    unknown = send_request(keeper.url + prefix, keeper.other_key, method, path, body, UNKNOWN_IDS)

    assert theirs.status_code == 404
    assert normalize_response(theirs, names) == normalize_response(unknown, UNKNOWN_IDS)
    with keeper.openai() as ours:
        assert ours.responses.retrieve(response.id).to_dict() == response.to_dict()
        assert next(iter(ours.conversations.items.list(conversation.id))).id == names["item"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/{response}"),
        ("GET", "/v1/responses/{response}?stream=true"),
        ("POST", "/v1/responses/{response}/cancel"),
        ("DELETE", "/v1/responses/{response}"),
    ],
)
def test_another_projects_running_responses_are_answered_like_unknown_ones(
    keeper: StoredServer, method: str, path: str
) -> None:
    with keeper.openai() as ours:
        stream = ours.responses.create(model="gated", input=(gate := uuid4().hex), stream=True)
        first = next(stream)
        assert first.type == "response.created"
        names = {"response": first.response.id}

        theirs = send_request(keeper.url, keeper.other_key, method, path, None, names)
        unknown = send_request(keeper.url, keeper.other_key, method, path, None, UNKNOWN_IDS)
        keeper.open(gate)

        assert theirs.status_code == 404
        assert normalize_response(theirs, names) == normalize_response(unknown, UNKNOWN_IDS)
        assert list(stream)[-1].type == "response.completed"


def test_a_chat_is_neither_read_nor_stopped_by_another_project(keeper: StoredServer) -> None:
    chat, gate = f"chat-{uuid4().hex}", uuid4().hex
    sent = {"id": chat, "messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": gate}]}]}
    address, other = f"{keeper.url}/gated/api/chat", {"authorization": f"Bearer {keeper.other_key}"}

    with httpx.stream("POST", address, json=sent, headers=keeper.headers, timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if "One." in line)
        assert httpx.get(f"{address}/{chat}/stream", headers=other, timeout=30).status_code == 204
        assert httpx.post(f"{address}/{chat}/stop", headers=other, timeout=30).status_code == 204
        keeper.open(gate)
        assert '"finishReason":"stop"' in "".join(lines)


def test_the_openai_package_raises_not_found_for_another_projects_response(keeper: StoredServer) -> None:
    with keeper.openai() as ours, keeper.openai(key=keeper.other_key) as theirs:
        response = ours.responses.create(model="heard", input="Hello")
        with pytest.raises(openai.NotFoundError):
            theirs.responses.retrieve(response.id)
        with pytest.raises(openai.NotFoundError):
            theirs.responses.create(model="heard", input="Hi", previous_response_id=response.id)


def send_request(url: str, key: str, method: str, path: str, body: Any, names: dict[str, str]) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    filled_body = {name: _fill_names(value, names) for name, value in body.items()} if body is not None else None
    return httpx.request(method, url + path.format(**names), json=filled_body, headers=headers, timeout=30)


def _fill_names(value: Any, names: dict[str, str]) -> Any:
    match value:
        case str():
            return re.sub(r"\{(\w+)\}", lambda match: names[match[1]], value)
        case list():
            return [_fill_names(item, names) for item in value]
        case dict():
            return {name: _fill_names(item, names) for name, item in value.items()}
        case _:
            return value


def normalize_response(answer: httpx.Response, names: dict[str, str]) -> tuple[int, dict[str, str], str]:
    """The status, headers and text of a response, with ids replaced by their kinds."""
    text = answer.text
    for kind, name in names.items():
        text = text.replace(name, kind)
    length = int(answer.headers["content-length"]) - len(answer.content)
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in ("x-request-id", "date", "content-length") and not name.startswith("x-ratelimit")
    }
    return answer.status_code, {**headers, "more": str(length)}, text

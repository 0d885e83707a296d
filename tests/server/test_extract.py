"""POST /api/extract: the conversation and preview of a posted value, within the usual body limits."""

import asyncio
from typing import Any

import pytest

from palaver.server.request import ClientDisconnected, Exchange
from palaver.testing import client, echo

JSON = {"content-type": "application/json"}
USER_MESSAGE = {"role": "user", "content": "Weather in Oslo?"}
ASSISTANT_MESSAGE = {"role": "assistant", "content": "Rain."}


async def test_extract_returns_the_conversation_and_its_preview() -> None:
    value = {"inputs": {"prompt": [USER_MESSAGE]}, "outputs": {"completion": [ASSISTANT_MESSAGE]}}
    async with client(echo) as http:
        answer = await http.post("/api/extract", json={"value": value, "prefer": "output"})

    assert (answer.status_code, answer.json()) == (
        200,
        {
            "conversation": {
                "messages": [{"role": "assistant", "parts": [{"type": "text", "text": "Rain."}]}],
                "dialect": "chat-completions",
                "path": "/outputs/completion",
                "side": "output",
            },
            "preview": {
                "renderer": "chat",
                "text": "Rain.",
                "role": "assistant",
                "count": 1,
                "path": "/outputs/completion",
                "dialect": "chat-completions",
                "messages": [
                    {"index": 0, "role": "assistant", "text": "Rain.", "cut": 0, "calls": [], "attachments": 0}
                ],
                "more": 0,
            },
        },
    )
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("value", "preview"),
    [
        (None, {"renderer": "empty", "text": ""}),
        ("Hi\nthere", {"renderer": "text", "text": "Hi there", "body": "Hi\nthere", "cut": 0}),
        ([1, 2], {"renderer": "json", "text": "[1,2]", "body": "[1,2]", "cut": 0}),
    ],
)
@pytest.mark.parametrize("preference", [{}, {"prefer": None}, {"prefer": "input"}, {"prefer": "output"}])
async def test_a_value_without_a_conversation_gets_only_a_preview(
    value: Any, preview: Any, preference: dict[str, Any]
) -> None:
    async with client(echo) as http:
        answer = await http.post("/api/extract", json={"value": value, **preference})

    assert (answer.status_code, answer.json()) == (200, {"conversation": None, "preview": preview})


async def test_a_large_conversation_is_returned_completely_with_a_short_preview() -> None:
    async with client(echo) as http:
        answer = await http.post(
            "/api/extract", json={"value": [USER_MESSAGE, ASSISTANT_MESSAGE] * 1_000, "prefer": "input"}
        )

    extracted = answer.json()
    assert len(extracted["conversation"]["messages"]) == 2_000
    assert (extracted["preview"]["count"], extracted["preview"]["messages"][0]["index"]) == (2_000, 1_998)


PREFER_ERROR = "prefer must be input, output or null, not 'both'."


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b'{"value": 1, "prefer": "both"}', 422, {"code": "invalid_value", "message": PREFER_ERROR, "path": "/prefer"}),
        (
            b'{"value": 1, "prefer": 5}',
            400,
            {"code": "invalid_type", "message": "prefer must be a string or null.", "path": "/prefer"},
        ),
        (
            b'{"prefer": "input"}',
            400,
            {
                "code": "invalid_body",
                "message": "Missing field 'value': the body must be an object such as {\"value\": …}.",
                "path": "/value",
            },
        ),
        (
            b"[]",
            400,
            {"code": "invalid_body", "message": 'The body must be an object such as {"value": …}.'},
        ),
    ],
)
async def test_an_invalid_extract_request_is_rejected(body: bytes, status: int, error: dict[str, str]) -> None:
    async with client(echo) as http:
        answer = await http.post("/api/extract", content=body, headers=JSON)

    assert (answer.status_code, answer.json()) == (status, {"error": error})


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"\xff", 400, "invalid_json"),
        (rb'{"value": "\ud800"}', 400, "invalid_json"),
        (b'{"value": NaN}', 400, "invalid_json"),
        (b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "too_deep"),
        (b'{"value": ' + b"[" * 70 + b"]" * 70 + b"}", 400, "too_deep"),
        (b'{"value": [' + b"1," * 100_000 + b"1]}", 400, "invalid_value"),
        (b'{"value": "' + b"x" * (4 * 1024 * 1024 + 1) + b'"}', 413, "too_large"),
        (b'{"value": "' + b"x" * (9 * 1024 * 1024) + b'"}', 413, "too_large"),
    ],
    ids=["none", "cut", "bytes", "surrogate", "nan", "very deep", "deep", "items", "string", "body"],
)
async def test_extract_applies_the_common_body_limits(body: bytes, status: int, code: str) -> None:
    async with client(echo) as http:
        answer = await http.post("/api/extract", content=body, headers=JSON)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_configured_body_limits_apply() -> None:
    body = {"value": "x" * 11_000_000}
    async with client(echo, max_body=20_000_000, max_string=20_000_000) as http:
        larger = await http.post("/api/extract", json=body)
    async with client(echo, max_body=20) as http:
        smaller = await http.post("/api/extract", json=body)

    assert (larger.status_code, larger.json()["preview"]["cut"]) == (200, 11_000_000 - 500)
    message = smaller.json()["error"]["message"]
    assert (smaller.status_code, message) == (413, "The request body exceeds the limit of 20 bytes.")


async def test_other_media_types_origins_and_methods_are_rejected() -> None:
    async with client(echo) as http:
        form = await http.post("/api/extract", content=b'{"value": 1}', headers={"content-type": "text/plain"})
        page = await http.post("/api/extract", json={"value": 1}, headers={"origin": "https://evil.example"})
        method = await http.get("/api/extract")

    assert (form.status_code, form.json()["error"]["code"]) == (415, "unsupported_media_type")
    assert (page.status_code, page.json()["error"]["code"]) == (403, "foreign_origin")
    assert (method.status_code, method.json()["error"]["code"]) == (405, "method_not_allowed")


async def test_unusual_unicode_text_is_returned_unchanged() -> None:
    content = "\u0000 \U0001f469\u200d\U0001f680 \u202e \x1b[31m"
    inner = r'[{"role": "user", "content": "\ud800"}]'  # Rejected by the JSON decoder, so it stays text.
    async with client(echo) as http:
        message = await http.post("/api/extract", json={"value": [{"role": "user", "content": content}]})
        text = await http.post("/api/extract", json={"value": {"messages": inner}})

    assert message.json()["conversation"]["messages"][0]["parts"] == [{"type": "text", "text": content}]
    assert message.json()["preview"]["text"] == "\U0001f469\u200d\U0001f680 \u202e [31m"
    assert text.json() == {
        "conversation": None,
        "preview": {"renderer": "text", "text": inner, "body": inner, "cut": 0},
    }


async def test_a_client_disconnect_is_answered_with_499_and_logs_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def disconnect(*_: object) -> bytes:
        await asyncio.sleep(0)
        raise ClientDisconnected

    monkeypatch.setattr(Exchange, "body", disconnect)
    async with client(echo) as http:
        answer = await http.post("/api/extract", json={"value": 1})

    assert answer.status_code == 499
    assert "Traceback" not in caplog.text


async def test_openapi_describes_the_extract_request_and_response() -> None:
    async with client(echo) as http:
        document = (await http.get("/openapi.json")).json()

    operation = document["paths"]["/api/extract"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert operation["operationId"] == "extract"
    assert body["required"] == ["value"]
    assert body["properties"]["prefer"]["enum"] == ["input", "output", None]
    extracted = document["components"]["schemas"][answer["$ref"].rpartition("/")[2]]
    assert extracted["required"] == ["conversation", "preview"]
    kinds = {one["$ref"].rpartition("/")[2] for one in extracted["properties"]["preview"]["oneOf"]}
    assert kinds == {"ChatPreview", "TextPreview", "JsonPreview", "EmptyPreview"}

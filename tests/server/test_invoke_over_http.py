"""/invoke, /run, /test and /inspect over HTTP."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from palaver import Message, chat, workflow
from palaver.demo import calculator, eliza, headline
from palaver.testing import client, echo, scripted

HELLO = {"messages": [{"role": "user", "content": "Hello there"}]}


@chat
async def tutor(messages: list[Message], subject: str = "maths") -> AsyncIterator[str]:
    """Explains a subject."""
    yield f"{len(messages)} messages "
    yield f"about {subject}."


@workflow
def count(upto: int) -> Any:
    """Counts."""
    yield from range(upto)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client(tutor, count, scripted, echo, eliza, headline, calculator) as opened:
        yield opened


def records(body: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line and not line.startswith(":")]
    return [msgspec.json.decode(line) for line in lines]


@pytest.mark.parametrize(("name", "is_chat"), [("eliza", True), ("calculator", True), ("headline", False)])
async def test_inspect_reports_whether_a_workflow_is_a_chat(http: httpx.AsyncClient, name: str, is_chat: bool) -> None:
    got, posted = await http.get(f"/{name}/inspect"), await http.post(f"/{name}/inspect", json={"revision": {}})

    assert got.json() == posted.json()
    assert got.json()["flags"] == got.json()["request"]["flags"] == {"is_chat": is_chat}
    assert set(got.json()["revision"]["data"]) == {"uri", "schemas", "parameters"}


async def test_the_request_suggested_by_inspect_can_be_posted_unchanged(http: httpx.AsyncClient) -> None:
    suggested = (await http.get("/tutor/inspect")).json()["request"]

    answer = await http.post("/tutor/invoke", json=suggested)

    assert answer.status_code == 200
    assert answer.json()["data"]["outputs"] == {"role": "assistant", "content": "0 messages about maths."}


async def test_a_flat_call_returns_only_the_message_with_ids_in_the_headers(http: httpx.AsyncClient) -> None:
    answer = await http.post("/tutor/invoke", json={**HELLO, "inputs": {"subject": "physics"}})

    assert answer.json() == {"role": "assistant", "content": "1 messages about physics."}
    assert answer.headers["x-ag-version"] == "2025.07.14"
    assert re.fullmatch(r"run_[0-9a-z]{26}", answer.headers["x-palaver-run-id"])
    trace, span = answer.headers["x-ag-trace-id"], answer.headers["x-ag-span-id"]
    assert answer.headers["traceparent"] == f"00-{trace}-{span}-01"


async def test_an_envelope_is_answered_with_an_envelope(http: httpx.AsyncClient) -> None:
    parent = "00-0ef1d6b784c34b8a705bae5974e51954-a1b2c3d4e5f60718-01"
    body = {"session_id": "s-1", "data": {"inputs": HELLO}}

    answer = await http.post("/tutor/invoke", json=body, headers={"traceparent": parent})
    document = answer.json()

    run_id, span_id = document["meta"].pop("run_id"), document.pop("span_id")
    assert (run_id, span_id) == (answer.headers["x-palaver-run-id"], answer.headers["x-ag-span-id"])
    assert document == {
        "version": "2025.07.14",
        "status": {"code": 200, "message": "Success"},
        "trace_id": "0ef1d6b784c34b8a705bae5974e51954",
        "session_id": "s-1",
        "data": {"outputs": {"role": "assistant", "content": "1 messages about maths."}},
        "meta": {"finish": "stop"},
    }
    assert answer.headers["baggage"] == "ag.session.id=s-1"


@pytest.mark.parametrize(
    ("accept", "flag", "form"),
    [
        (None, None, "application/json"),
        (None, True, "application/x-ndjson"),
        ("application/json, text/event-stream", True, "text/event-stream"),
        ("text/event-stream;q=0.1, application/json", None, "application/json"),
        ("application/json;q=0, */*", None, "application/x-ndjson"),
        ("text/*", None, "text/event-stream"),
        ("application/jsonl", None, "application/jsonl"),
    ],
)
async def test_the_response_format_is_negotiated(
    http: httpx.AsyncClient, accept: str | None, flag: bool | None, form: str
) -> None:
    body = {**HELLO, **({} if flag is None else {"flags": {"stream": flag}})}

    answer = await http.post("/tutor/invoke", json=body, headers={"accept": accept or "*/*"})

    assert answer.status_code == 200
    assert answer.headers["content-type"] == form
    if form != "application/json":
        stream_records = records(answer.text)
        assert [record["type"] for record in stream_records] == [
            *("message_start", "message_delta", "message_delta", "message_end", "done")
        ]
        assert stream_records[-1]["data"]["run_id"] == answer.headers["x-palaver-run-id"]


@pytest.mark.parametrize(
    ("accept", "flag"), [("application/json", True), ("text/event-stream", False), ("image/*", None)]
)
async def test_an_unsupported_response_format_is_rejected_without_a_run(
    http: httpx.AsyncClient, accept: str, flag: bool | None
) -> None:
    body = {**HELLO, **({} if flag is None else {"flags": {"stream": flag}})}

    answer = await http.post("/tutor/invoke", json=body, headers={"accept": accept})

    assert answer.status_code == 406
    assert answer.json()["status"]["type"] == "not_acceptable"
    assert answer.json()["status"]["supported"]
    assert "x-palaver-run-id" not in answer.headers


async def test_generator_output_is_collected_for_json_and_streamed_for_sse(http: httpx.AsyncClient) -> None:
    collected = await http.post("/count/invoke", json={"inputs": {"upto": 3}})
    streamed = await http.post("/count/invoke", json={"inputs": {"upto": 3}}, headers={"accept": "text/event-stream"})

    assert collected.json() == [0, 1, 2]
    stream_records = records(streamed.text)
    assert [record["data"]["value"] for record in stream_records if record["type"] == "data"] == [0, 1, 2]
    assert stream_records[-1]["data"]["outputs"] == [0, 1, 2]


TEXT_THEN_FAILURE = [{"text": "Well, "}, {"fail": {"code": "no_idea", "message": "I do not know.", "status": 418}}]


async def test_a_run_that_fails_after_its_first_record_ends_with_a_framed_error(http: httpx.AsyncClient) -> None:
    body = {**HELLO, "inputs": {"script": TEXT_THEN_FAILURE}}

    answer = await http.post("/scripted/invoke", json=body, headers={"accept": "text/event-stream"})

    stream_records = records(answer.text)
    assert answer.status_code == 200
    assert [record["type"] for record in stream_records] == [
        "message_start",
        "message_delta",
        "message_end",
        "error",
        "done",
    ]
    assert stream_records[-2]["data"] == {"code": "no_idea", "message": "I do not know."}
    assert stream_records[-1]["data"]["stopReason"] == "error"


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/event-stream"])
async def test_a_run_that_fails_before_its_first_record_is_answered_with_its_status(
    http: httpx.AsyncClient, accept: str
) -> None:
    body = {**HELLO, "inputs": {"script": TEXT_THEN_FAILURE[1:]}}

    answer = await http.post("/scripted/invoke", json=body, headers={"accept": accept})

    assert answer.status_code == 418
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["status"] == {"code": 418, "type": "no_idea", "message": "I do not know."}


async def test_the_envelope_of_a_failed_run_contains_its_partial_output(http: httpx.AsyncClient) -> None:
    body = {"data": {"inputs": {**HELLO, "script": TEXT_THEN_FAILURE}}}

    answer = await http.post("/scripted/invoke", json=body)

    assert answer.status_code == 418
    assert answer.json()["data"] == {"outputs": {"role": "assistant", "content": "Well, "}}


async def test_an_exception_in_a_workflow_reveals_only_the_run_id(http: httpx.AsyncClient) -> None:
    body = {**HELLO, "inputs": {"script": [{"raise": "the password is swordfish"}]}}

    answer = await http.post("/scripted/invoke", json=body)

    run_id = answer.headers["x-palaver-run-id"]
    assert answer.json()["status"] == {
        "code": 500,
        "type": "workflow_failed",
        "message": f"The workflow failed (run {run_id}).",
    }
    assert "swordfish" not in answer.text


async def test_a_chat_with_tools_returns_all_messages_or_the_last_one_if_trimmed(
    http: httpx.AsyncClient,
) -> None:
    body = {"messages": [{"role": "user", "content": "What is 2 + 2?"}]}

    untrimmed = await http.post("/calculator/invoke", json=body)
    trimmed = await http.post("/calculator/invoke", json={**body, "flags": {"trim": True}})

    call = {"id": "call_1_0", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
    assert untrimmed.json() == [
        {"role": "assistant", "content": "2 + 2 takes 1 step.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1_0", "content": "4"},
        {"role": "assistant", "content": "The answer is 4."},
    ]
    assert trimmed.json() == untrimmed.json()[-1]


async def test_run_and_test_routes_take_flat_bodies_and_answer_in_the_legacy_format(http: httpx.AsyncClient) -> None:
    answers = [
        await http.post(f"/headline/{path}?app=news", json={"inputs": {"text": "It rained."}})
        for path in ("run", "test")
    ]

    for answer in answers:
        document = answer.json()
        trace = document["trace_id"]
        assert document.pop("span_id") == answer.headers["x-ag-span-id"]
        assert document == {
            "version": "3.0",
            "data": "It Rained",
            "content_type": "text/plain",
            "tree": None,
            "tree_id": f"{trace[:8]}-{trace[8:12]}-{trace[12:16]}-{trace[16:20]}-{trace[20:]}",
            "trace_id": trace,
        }


async def test_the_run_route_rejects_an_envelope(http: httpx.AsyncClient) -> None:
    answer = await http.post("/headline/run", json={"data": {"inputs": {}}})

    assert answer.status_code == 400
    assert answer.json()["status"]["type"] == "misplaced_field"


INVALID_BODIES: list[tuple[str, bytes, dict[str, str], int, str]] = [
    ("not an object", b"[1]", {}, 400, "invalid_body"),
    ("a wrong type in the form", b'{"inputs": 5}', {}, 400, "invalid_body"),
    ("not json", b"{", {}, 400, "invalid_json"),
    ("not a number", b'{"a": NaN}', {}, 400, "invalid_json"),
    ("bad utf-8", b'{"a": "\xff"}', {}, 400, "invalid_json"),
    ("a lone surrogate", b'{"a": "\\ud800"}', {}, 400, "invalid_json"),
    ("depth 10,000", b"[" * 10_000, {}, 400, "too_deep"),
    ("depth 100", b'{"a":' * 100 + b"1" + b"}" * 100, {}, 400, "too_deep"),
    ("11 MB", b'{"a": "' + b"x" * 11_000_000 + b'"}', {}, 413, "too_large"),
    ("a form post", b"a=1", {"content-type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
    ("plain text", b"{}", {"content-type": "text/plain"}, 415, "unsupported_media_type"),
    ("a wrong type of input", b'{"messages":[],"inputs":{"subject":5}}', {}, 422, "invalid_input"),
    ("no history", b"{}", {}, 422, "missing_input"),
    ("history that is no messages", b'{"messages":[1]}', {}, 422, "invalid_messages"),
    ("a session that is none", b'{"messages":[],"session_id":"a b"}', {}, 400, "invalid_session_id"),
    ("force", b'{"messages":[],"flags":{"force":true}}', {}, 400, "unsupported_flag"),
    (
        "said twice",
        b'{"messages":[],"inputs":{"messages":[{"role":"user","content":"a"}]}}',
        {},
        400,
        "conflicting_fields",
    ),
]


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"), [odd[1:] for odd in INVALID_BODIES], ids=[odd[0] for odd in INVALID_BODIES]
)
async def test_an_invalid_body_gets_its_status_and_a_one_line_message(
    http: httpx.AsyncClient, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    answer = await http.post("/tutor/invoke", content=body, headers={"content-type": "application/json", **headers})

    error = answer.json()["status"]
    assert (answer.status_code, error["code"], error["type"]) == (status, status, code)
    assert error["message"].endswith((".", ")", "-"))
    assert "\n" not in error["message"]


async def test_the_error_for_an_unknown_workflow_lists_the_known_ones(http: httpx.AsyncClient) -> None:
    answer = await http.post("/nobody/invoke", json=HELLO)

    assert answer.status_code == 404
    assert answer.json()["status"] == {
        "code": 404,
        "type": "workflow_not_found",
        "message": "Workflow 'nobody' not found. Available: calculator, count, echo, eliza, headline, scripted, tutor.",
    }


async def test_a_wrong_method_is_405_with_an_allow_header(http: httpx.AsyncClient) -> None:
    answer = await http.put("/tutor/invoke", json=HELLO)

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_every_invalid_input_is_listed_with_its_pointer_into_the_body(http: httpx.AsyncClient) -> None:
    flat = await http.post("/headline/invoke", json={"text": "Rain", "inputs": {"words": "8", "size": 1}})
    envelope = await http.post("/headline/invoke", json={"data": {"inputs": {"words": "8"}, "parameters": {"tone": 1}}})

    assert flat.status_code == 422
    assert [(fault["type"], fault["pointer"]) for fault in flat.json()["status"]["errors"]] == [
        ("missing_input", "/inputs/text"),
        ("invalid_input", "/inputs/words"),
        ("unknown_input", "/inputs/size"),
    ]
    assert "found at /text; it belongs in /inputs/text" in flat.json()["status"]["message"]
    assert [(fault["type"], fault["pointer"]) for fault in envelope.json()["status"]["errors"]] == [
        ("missing_input", "/data/inputs/text"),
        ("invalid_input", "/data/inputs/words"),
        ("unknown_parameter", "/data/parameters/tone"),
    ]


@pytest.mark.parametrize(
    ("path", "body", "pointer", "message"),
    [
        ("invoke", {"inputs": {"text": "Rain"}, "words": 3}, "/words", "/words belongs in /inputs/words"),
        ("run", {"inputs": {"text": "Rain"}, "words": 3}, "/words", "/words belongs in /inputs/words"),
        (
            "invoke",
            {"data": {"inputs": {"text": "Rain"}}, "words": 3},
            "/words",
            "/words belongs in /data/inputs/words",
        ),
        (
            "invoke",
            {"data": {"inputs": {"text": "Rain"}, "words": 3}},
            "/data/words",
            "/data/words belongs in /data/in",
        ),
        ("invoke", {"text": "Rain", "words": 3}, "/text", "/text belongs in /inputs/text; /words belongs in /inputs/w"),
    ],
)
async def test_an_optional_input_in_the_wrong_place_is_refused(
    http: httpx.AsyncClient, path: str, body: object, pointer: str, message: str
) -> None:
    answer = await http.post(f"/headline/{path}", json=body)

    status = answer.json()["status"]
    assert (answer.status_code, status["type"]) == (400, "misplaced_field")
    assert [error["pointer"] for error in status["errors"]] == [pointer]
    assert status["message"].startswith(f"Inputs are in the wrong place: {message}")


async def test_unknown_keys_and_inputs_that_are_also_in_the_right_place_are_accepted(http: httpx.AsyncClient) -> None:
    inputs = {"text": "Rain fell.", "words": 1}
    answers = [
        await http.post("/headline/invoke", json={"inputs": inputs, "words": 1, "theirs": 2}),
        await http.post("/headline/invoke", json={"data": {"inputs": inputs, "theirs": 2}}),
    ]

    assert [answer.status_code for answer in answers] == [200, 200]


async def test_a_single_workflow_is_also_served_at_the_root() -> None:
    async with client(tutor) as http:
        inspected, invoked = await http.get("/inspect"), await http.post("/invoke", json=HELLO)

    assert inspected.json()["revision"]["slug"] == "tutor"
    assert invoked.status_code == 200


async def test_the_root_without_a_default_workflow_lists_the_known_ones(http: httpx.AsyncClient) -> None:
    answer = await http.post("/invoke", json=HELLO)

    assert answer.status_code == 404
    assert "no default set. Available: calculator" in answer.json()["status"]["message"]


async def test_openapi_has_the_is_chat_flag_and_messages_only_for_chats(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()

    for name, is_chat in (("tutor", True), ("headline", False)):
        for path in ("invoke", "run", "test"):
            operation = document["paths"][f"/{name}/{path}"]["post"]
            assert operation["x-agenta"] == {"flags": {"is_chat": is_chat}}
        body = document["paths"][f"/{name}/run"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert ("messages" in body["properties"]) is is_chat
    assert document["openapi"] == "3.1.0"
    assert "/api/workflows" in document["paths"]
    assert "/invoke" not in document["paths"]

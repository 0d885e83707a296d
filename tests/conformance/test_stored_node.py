"""openai for Node: stored responses and conversations, with the same results as the Python package."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.conformance.node_drivers import Driver
from tests.conformance.stored_server import StoredServer

AskFunction = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(keeper: StoredServer, drivers: Callable[[str], Driver]) -> AskFunction:
    def ask_driver(way: str, **more: str) -> dict[str, Any]:
        built = drivers("stored").ask(way=way, url=keeper.url, key=keeper.key, **more)
        assert built["error"] is None
        return built

    return ask_driver


def test_a_response_is_retrieved_as_it_was_created(ask: AskFunction) -> None:
    built = ask("retrieved", prompt=json.dumps([{"text": "One. "}, {"usage": {"input_tokens": 3, "output_tokens": 4}}]))

    assert built["retrieved"] == built["created"]
    assert (built["created"]["status"], built["created"]["output_text"]) == ("completed", "One. ")


def test_a_stream_is_resumed_during_the_run_and_afterwards(ask: AskFunction) -> None:
    built = ask("resumed", gate=uuid4().hex)

    assert [event["sequence_number"] for event in built["whole"]] == list(range(len(built["whole"])))
    assert built["whole"][-1]["response"]["output"][0]["content"][0]["text"] == "One. Two."
    assert built["live"] == built["whole"][3:]
    assert built["after"] == built["whole"][6:]
    assert built["again"] == built["whole"]


def test_a_run_is_cancelled_and_deleted(ask: AskFunction) -> None:
    built = ask("cancelled", gate=uuid4().hex)

    assert built["running"] == bad_request_error("still_running")
    assert built["cancelled"]["status"] == "cancelled"
    assert built["cancelled"]["output"][0]["content"][0]["text"] == "One. "
    assert built["again"] == built["cancelled"]
    assert built["last"]["type"] == "response.incomplete"
    assert built["last"]["response"]["status"] == "cancelled"
    assert built["finished"] == bad_request_error("not_cancellable")
    assert built["gone"] == not_found_error("response_not_found")


def test_responses_can_be_chained(ask: AskFunction) -> None:
    built = ask("chained")

    assert built["heard"] == [
        ["user", "One?"],
        ["assistant", built["first"]],
        ["user", "What time is it?"],
        ["assistant", "c3: get_time"],
        ["tool", "c3: 12:00"],
    ]
    assert built["items"] == ["message", "message", "message", "function_call", "function_call_output"]
    assert built["broken"] == not_found_error("previous_response_not_found", "previous_response_id")


def test_a_conversation_is_stored_and_answered(ask: AskFunction) -> None:
    gate = uuid4().hex

    built = ask("conversed", gate=gate)

    assert built["kept"]["content"] == [{"type": "input_text", "text": "Hello"}]
    assert built["updated"] == built["same"]
    assert built["same"]["metadata"] == {"topic": "space"}
    assert built["locked"] == {"kind": "ConflictError", "status": 409, "code": "conversation_locked", "param": None}
    assert built["heard"] == [["user", "Hello"], ["user", gate], ["assistant", "One. Two."], ["user", "And?"]]
    assert built["roles"] == ["user", "user", "assistant", "user", "assistant"]
    assert built["left"] == 4
    assert (built["deleted"]["object"], built["deleted"]["deleted"]) == ("conversation.deleted", True)
    assert built["gone"] == not_found_error("conversation_not_found")


def test_files_are_uploaded_listed_read_by_a_workflow_and_deleted(ask: AskFunction) -> None:
    built = ask("uploaded")

    file = built["file"]
    assert (file["object"], file["filename"], file["bytes"], file["purpose"]) == ("file", "notes.txt", 5, "user_data")
    assert (built["retrieved"], built["content"]) == (file, "Rain.")
    assert [index for index in built["listed"] if index >= 0] == [1, 0]  # Newest first, one page each.
    assert built["heard"] == [["text/plain", "notes.txt", 5], ["image/png", "sky.png", 3]]
    assert built["deleted"] == {"id": file["id"], "object": "file", "deleted": True}
    assert built["gone"] == not_found_error("not_found")
    assert built["unsupported"] == bad_request_error("unsupported_value") | {"param": "purpose"}


def bad_request_error(code: str) -> dict[str, Any]:
    return {"kind": "BadRequestError", "status": 400, "code": code, "param": None}


def not_found_error(code: str, param: str | None = None) -> dict[str, Any]:
    return {"kind": "NotFoundError", "status": 404, "code": code, "param": param}

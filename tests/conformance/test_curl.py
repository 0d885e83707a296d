"""curl against /invocations: JSON and streamed answers, a tool call, and errors."""

import json
import shutil
import subprocess

import pytest

from tests.server_process import ServerProcess

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")


def curl(server: ServerProcess, body: dict[str, object], *more: str) -> str:
    command = ["curl", "--silent", "--show-error", "--no-buffer", "--noproxy", "*", *more]
    command += [f"{server.url}/scripted/invocations", "-H", "content-type: application/json", "-d", json.dumps(body)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=30, check=True).stdout


def test_a_question_is_answered_with_a_responses_message(server: ServerProcess) -> None:
    response = curl(server, {"input": [{"role": "user", "content": "Hello there"}]})

    [message] = json.loads(response)["output"]
    assert message == {
        "type": "message",
        "id": message["id"],
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello there", "annotations": [], "logprobs": []}],
    }


def test_a_streamed_answer_is_sent_as_data_lines(server: ServerProcess) -> None:
    response = curl(server, {"input": [{"role": "user", "content": "Hello there"}], "stream": True})

    lines = [line for line in response.split("\n") if line]
    types = [json.loads(line.removeprefix("data: "))["type"] for line in lines[:-1]]
    assert types == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "responses.completed",
        "response.completed",
    ]
    assert lines[-1] == "data: [DONE]"


def test_a_tool_call_and_its_result_are_output_items(server: ServerProcess) -> None:
    script = [
        {"tool_call": {"name": "get_current_time", "id": "call-456", "arguments": '{"timezone":"Asia/Tokyo"}'}},
        {"tool_result": {"id": "call-456", "output": "Current time: 12:00 PM"}},
    ]

    response = curl(server, {"input": [], "custom_inputs": {"script": script}})

    assert json.loads(response)["output"] == [
        {
            "type": "function_call",
            "id": "fc_call-456",
            "call_id": "call-456",
            "name": "get_current_time",
            "arguments": '{"timezone":"Asia/Tokyo"}',
            "status": "completed",
        },
        {
            "type": "function_call_output",
            "id": "fco_call-456",
            "call_id": "call-456",
            "output": "Current time: 12:00 PM",
            "status": "completed",
        },
    ]


def test_an_invalid_request_is_answered_with_both_error_and_detail(server: ServerProcess) -> None:
    response = curl(server, {"input": "Hello", "stream": "yes"}, "--write-out", "\n%{http_code}")

    body, status = response.rsplit("\n", 1)
    message = json.loads(body)["detail"]
    assert (status, json.loads(body)) == (
        "400",
        {
            "error": {"message": message, "type": "invalid_request", "code": "invalid_type", "param": "stream"},
            "detail": message,
        },
    )

"""Every event and every body validates against the types published by OpenAI and MLflow."""

import json
from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest
from mlflow.types.responses import ResponsesAgentResponse, ResponsesAgentStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

from tests.conformance.scenarios import SCENARIOS, Step
from tests.conformance.sse_frames import responses_body, stream_frames

EVENTS: dict[str, type[BaseModel]] = {
    get_args(event.model_fields["type"].annotation)[0]: event for event in get_args(get_args(ResponseStreamEvent)[0])
}
ALLOWED_EXTRA_PATHS = {
    # Required by the validators of Open Responses.
    "response.presence_penalty",
    "response.frequency_penalty",
    "response.store",
    # Required for a call's arguments by earlier versions of the package.
    "name",
    # The nested form of an error, next to the flat one.
    "error",
    # Palaver's own fields.
    "item.palaver:is_error",
    "response.output.palaver:is_error",
}

RESPONSE_KEYS = set(  # Validators reject a missing key as they do a wrong one.
    "id object created_at completed_at status background error incomplete_details instructions max_output_tokens "
    "max_tool_calls metadata model output parallel_tool_calls presence_penalty frequency_penalty previous_response_id "
    "conversation prompt_cache_key reasoning safety_identifier service_tier store temperature text tool_choice tools "
    "top_logprobs top_p truncation usage".split()
)

FULL_SCRIPT: list[Step] = [
    {"reasoning": "One thing after another."},
    {
        "message": {
            "role": "assistant",
            "parts": [
                {
                    "type": "text",
                    "text": "As it is written.",
                    "annotations": [
                        {"kind": "url", "url": "https://example.org/", "title": "A page", "start": 0, "end": 5},
                        {"kind": "file", "file_id": "file_1", "title": "notes.txt"},
                    ],
                },
                {"type": "refusal", "text": "But not that."},
            ],
        }
    },
    {"data": {"name": "chart", "value": {"x": [1, 2]}}},
    {"tool_call": {"name": "look", "id": "c1", "arguments": {"at": "it"}}},
    {"tool_call": {"name": "look", "id": "c2", "arguments": "{not json"}},
    {"tool_result": {"id": "c2", "output": "No.", "error": True}},
    {"tool_result": {"id": "c1", "output": [{"type": "text", "text": "Seen."}]}},
    {"text": "Done."},
    {"usage": {"input_tokens": 3, "output_tokens": 4}},
]
SUCCESSFUL_SCRIPTS = {name: scenario.script for name, scenario in SCENARIOS.items() if scenario.built.error is None} | {
    "everything": FULL_SCRIPT
}
SCRIPTS = SUCCESSFUL_SCRIPTS | {
    name: scenario.script for name, scenario in SCENARIOS.items() if scenario.built.error and not scenario.refused
}

each_script = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
each_successful_script = pytest.mark.parametrize("script", SUCCESSFUL_SCRIPTS.values(), ids=SUCCESSFUL_SCRIPTS)


@each_script
def test_every_responses_event_validates_as_an_openai_type(http: httpx.Client, script: list[Step]) -> None:
    *events, done = stream_frames(http, "/scripted/v1/responses", responses_body(script))

    assert done == (None, "[DONE]")
    for event in events:
        assert event.event == event.data["type"]
        if event.data.get("item", {}).get("type", "").startswith("palaver:"):
            continue
        data = without_extensions(event.data)
        assert set(data.get("response", RESPONSE_KEYS)) == RESPONSE_KEYS
        value = EVENTS[data["type"]].model_validate_json(json.dumps(data), strict=True)
        assert set(extra_paths(value)) <= ALLOWED_EXTRA_PATHS


@each_successful_script
def test_the_responses_body_validates_as_an_openai_type(http: httpx.Client, script: list[Step]) -> None:
    answer = http.post("/scripted/v1/responses", json=responses_body(script))

    body = without_extensions({"response": answer.json()})["response"]
    value = Response.model_validate_json(json.dumps(body), strict=True)

    assert set(body) == RESPONSE_KEYS
    assert {f"response.{path}" for path in extra_paths(value)} <= ALLOWED_EXTRA_PATHS


@each_script
def test_every_event_of_invocations_passes_mlflows_validation(http: httpx.Client, script: list[Step]) -> None:
    *events, done = stream_frames(http, "/scripted/invocations", responses_body(script))

    assert done == (None, "[DONE]")
    for event in events:
        assert event.event is None
        ResponsesAgentStreamEvent.model_validate(event.data)


@each_successful_script
def test_the_body_of_invocations_passes_mlflows_validation(http: httpx.Client, script: list[Step]) -> None:
    answer = http.post("/scripted/invocations", json=responses_body(script))

    ResponsesAgentResponse.model_validate(answer.json())
    assert [path for path, value in leaves(answer.json()) if value is None] == []


@each_script
def test_every_chat_completions_chunk_validates_as_an_openai_type(http: httpx.Client, script: list[Step]) -> None:
    body = {
        "messages": [{"role": "user", "content": "Go on."}],
        "custom_inputs": {"script": script},
        "stream_options": {"include_usage": True},
    }
    *chunks, done = stream_frames(http, "/scripted/v1/chat/completions", body)

    assert done == (None, "[DONE]")
    for chunk in chunks:
        assert chunk.event is None
        if "error" in chunk.data:
            assert set(chunk.data) == {"error"}
            continue
        value = ChatCompletionChunk.model_validate_json(json.dumps(chunk.data), strict=True)
        assert set(extra_paths(value)) <= {"choices.delta.reasoning_content", "choices.delta.annotations"}


@each_successful_script
def test_the_chat_completions_body_validates_as_an_openai_type(http: httpx.Client, script: list[Step]) -> None:
    body = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "Go on."}],
        "custom_inputs": {"script": script},
    }
    answer = http.post("/scripted/v1/chat/completions", json=body)

    value = ChatCompletion.model_validate_json(answer.content, strict=True)

    assert set(extra_paths(value)) <= {"choices.message.reasoning_content"}


def without_extensions(data: dict[str, Any]) -> dict[str, Any]:
    """Remove what OpenAI's types cannot know: Palaver's own items and error codes."""
    response = data.get("response")
    if response is None:
        return data
    response = {
        **response,
        "output": [item for item in response["output"] if not item["type"].startswith("palaver:")],
    }
    if response["error"]:
        response["error"] = {**response["error"], "code": "server_error"}
    return {**data, "response": response}


def extra_paths(value: object, path: str = "") -> Iterator[str]:
    """The paths of keys that are not fields of their model."""
    if isinstance(value, list):
        for item in value:
            yield from extra_paths(item, path)
    if isinstance(value, BaseModel):
        for name in value.model_extra or {}:
            yield f"{path}{name}"
        for name in type(value).model_fields:
            yield from extra_paths(getattr(value, name), f"{path}{name}.")


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value that is neither an object nor a list, with its path."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from leaves(inner, f"{path}.{name}")
        case list():
            for index, inner in enumerate(value):
                yield from leaves(inner, f"{path}[{index}]")
        case _:
            yield path, value

"""The error classes that the openai package raises, and that no failed request is retried."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.conformance.scenarios import FAIL
from tests.server_process import ServerProcess


@pytest.fixture
def client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    """A client with the default settings, which retries by itself."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        yield client


def error_fields(error: openai.APIStatusError) -> dict[str, Any]:
    return {"status": error.status_code, "type": error.type, "code": error.code, "param": error.param}


def test_an_unknown_workflow_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="Workflow 'nobody' not found") as raised:
        client.responses.create(model="nobody", input="Hello")

    assert error_fields(raised.value) == {"status": 404, "type": "not_found", "code": "model_not_found", "param": None}


def test_a_wrong_value_is_a_bad_request_that_names_its_field(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature must be between 0 and 2") as raised:
        client.responses.create(model="scripted", input="Hello", temperature=9)

    assert error_fields(raised.value) == {
        "status": 400,
        "type": "invalid_request",
        "code": "invalid_value",
        "param": "temperature",
    }


def test_an_invalid_request_is_rejected_before_the_stream_starts(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="n must be") as raised:
        client.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "Hello"}], n=2, stream=True
        )

    assert error_fields(raised.value) == {
        "status": 400,
        "type": "invalid_request",
        "code": "unsupported_value",
        "param": "n",
    }


@pytest.mark.parametrize("method", ["retrieve", "cancel", "delete"])
def test_an_unknown_response_is_not_found_and_not_requested_again(
    client: openai.OpenAI, http: httpx.Client, method: str
) -> None:
    before = request_count(http, status=404)

    with pytest.raises(openai.NotFoundError, match="resp_1") as raised:
        getattr(client.responses, method)("resp_1")

    assert error_fields(raised.value) == {
        "status": 404,
        "type": "not_found",
        "code": "response_not_found",
        "param": None,
    }
    assert request_count(http, status=404) == before + 1


def test_an_unknown_previous_response_or_conversation_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.responses.create(model="scripted", input="Hello", previous_response_id="resp_1")
    assert error_fields(raised.value) == {
        "status": 404,
        "type": "not_found",
        "code": "previous_response_not_found",
        "param": "previous_response_id",
    }

    with pytest.raises(openai.NotFoundError) as raised:
        client.responses.create(model="scripted", input="Hello", conversation="conv_1")
    assert error_fields(raised.value) == {
        "status": 404,
        "type": "not_found",
        "code": "conversation_not_found",
        "param": "conversation",
    }


def test_a_failed_response_has_the_code_of_its_run_and_is_not_retried(
    client: openai.OpenAI, http: httpx.Client
) -> None:
    before = request_count(http, status=500)

    with pytest.raises(openai.InternalServerError, match="The model is down") as raised:
        client.responses.create(model="scripted", input="Go on.", extra_body={"custom_inputs": {"script": [FAIL]}})

    assert error_fields(raised.value) == {"status": 500, "type": "model_error", "code": "model_down", "param": None}
    assert request_count(http, status=500) == before + 1


def test_a_failed_chat_completion_has_the_code_of_its_run_and_is_not_retried(
    client: openai.OpenAI, http: httpx.Client
) -> None:
    before = request_count(http, status=500)

    with pytest.raises(openai.InternalServerError, match="The model is down") as raised:
        client.chat.completions.create(
            model="scripted",
            messages=[{"role": "user", "content": "Go on."}],
            extra_body={"custom_inputs": {"script": [FAIL]}},
        )

    assert error_fields(raised.value) == {"status": 500, "type": "model_error", "code": "model_down", "param": None}
    assert request_count(http, status=500) == before + 1


def test_models_are_the_chat_workflows_by_name(client: openai.OpenAI) -> None:
    models = [model.id for model in client.models.list()]

    assert models == ["calculator", "eliza", "probed", "recalling", "scripted"]
    assert client.models.retrieve("eliza").owned_by == "palaver"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def request_count(http: httpx.Client, *, status: int) -> int:
    """How many requests were answered with that status so far."""
    counts = re.findall(
        rf'^palaver_requests_total{{.*status="{status}"}} (\d+)', http.get("/metrics").text, re.MULTILINE
    )
    return sum(map(int, counts))

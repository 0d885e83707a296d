"""GET and POST /inspect: the document that Agenta's clients read."""

import pytest

from palaver.core.descriptions import Description, Schemas
from palaver.errors import InvalidBody, InvalidJson
from palaver.protocols.agenta import inspect
from tests.protocols.fixed_run import find, json, request

SCHEMAS = Schemas(inputs={"type": "object"}, parameters={"type": "object"}, outputs={})
TUTOR = Description(
    name="tutor",
    description="Explains a subject.",
    flags={"is_chat": True, "beta": True},
    schemas=SCHEMAS,
    inputs={"subject": "maths"},
    parameters={"temperature": 0.2},
)


def test_inspect_document_describes_the_workflow_and_an_example_request() -> None:
    answer = inspect.inspect_response(TUTOR, routes={"invoke": "/tutor/invoke"}, version="0.1.0")
    revision = {
        "slug": "tutor",
        "name": "tutor",
        "description": "Explains a subject.",
        "data": {
            "uri": "user:custom:tutor:latest",
            "schemas": {"inputs": {"type": "object"}, "parameters": {"type": "object"}, "outputs": {}},
            "parameters": {"temperature": 0.2},
        },
    }

    assert answer.headers == (("content-type", "application/json"), ("x-ag-version", "2025.07.14"))
    assert (answer.status, json(answer)) == (
        200,
        {
            "version": "2025.07.14",
            "flags": {"is_chat": True, "beta": True},
            "revision": revision,
            "request": {
                "version": "2025.07.14",
                "flags": {"is_chat": True, "beta": True},
                "data": {
                    "revision": revision,
                    "inputs": {"messages": [], "subject": "maths"},
                    "parameters": {"temperature": 0.2},
                },
            },
            "meta": {
                "palaver": {
                    "version": "0.1.0",
                    "workflow": "tutor",
                    "is_chat_source": "declared",
                    "streams": True,
                    "routes": {"invoke": "/tutor/invoke"},
                }
            },
        },
    )


def test_non_chat_workflow_is_flagged_and_has_no_messages_input() -> None:
    document = inspect.inspect_document(find("headline"), routes={}, version="0")

    assert document["flags"] == document["request"]["flags"] == {"is_chat": False}
    assert document["request"]["data"]["inputs"] == {}
    assert document["revision"]["data"].keys() == {"uri", "schemas", "parameters"}


def test_remote_workflow_is_reported_as_streaming() -> None:
    description = Description(name="far", flags={"is_chat": True}, is_chat_source="derived", streams=False, remote=True)

    output = inspect.inspect_document(description, routes={}, version="0")["meta"]["palaver"]

    assert (output["streams"], output["is_chat_source"]) == (True, "derived")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"revision":{"uri":"agenta:custom:hook:v0"}}'])
def test_a_body_has_no_effect(body: bytes) -> None:
    assert inspect.check_inspect_body(request(body)) is None


@pytest.mark.parametrize(("body", "error"), [(b"[]", InvalidBody), (b"{", InvalidJson), (b"\xff", InvalidJson)])
def test_body_that_is_not_a_json_object_is_rejected(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        inspect.check_inspect_body(request(body))

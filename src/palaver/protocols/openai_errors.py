"""Errors in OpenAI's shape: one body for all who read it (contract: responses, 5).

OpenAI's SDKs show `error.message`, MLflow's clients `detail`, and the AI SDK's provider prints the body: it is small.
Some codes have names of their own here; the classes below carry the one that SDKs know.
"""

import re
from collections.abc import Callable
from typing import Any

from palaver.core import json
from palaver.core.events import RunCancelled, RunFailed, RunStarted
from palaver.errors import (
    ConflictingFields,
    FaultyCall,
    InvalidValue,
    NotImplementedYet,
    PalaverError,
    RequestError,
    ResponseNotFound,
)
from palaver.protocols.base import Headers, HttpResponse

_OPENAI_CODES = {
    "workflow_not_found": "model_not_found",
    "invalid_body": "invalid_type",
    "unauthorized": "invalid_api_key",
}
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found", 429: "too_many_requests"}
_POINTER_STEP = re.compile(r"/([^/]*)")


class MissingRequired(InvalidValue):
    """A field that must be there."""

    spelled = "missing_required_parameter"


class MutuallyExclusive(ConflictingFields):
    """Two fields of which only one may be there."""

    spelled = "mutually_exclusive"


class StringTooLong(InvalidValue):
    """A string or an id over its limit."""

    spelled = "string_too_long"


class UnsupportedValue(InvalidValue):
    """A lawful value that we cannot honour."""

    spelled = "unsupported_value"


class PreviousResponseNotFound(ResponseNotFound):
    """The response that a call goes on from is not there, or was not stored."""

    spelled = "previous_response_not_found"


def pointer_to_param(pointer: str) -> str:
    """A JSON pointer in the words of these APIs: `/input/2/content/0` is `input[2].content[0]`."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in _POINTER_STEP.findall(pointer)]
    return "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps).removeprefix(".")


def error_response(
    error: PalaverError, *, status: int, pointed: Callable[[str], str] = pointer_to_param
) -> HttpResponse:
    """The answer to a request that started no run. `pointed` turns a pointer of the waist into a param of the body."""
    if isinstance(error, FaultyCall):
        error = error.faults[0]  # There is room for one.
    pointer = error.pointer if isinstance(error, RequestError) else None
    code = getattr(error, "spelled", None) or _OPENAI_CODES.get(error.code, error.code)
    told = {
        "message": error.message,
        "type": _error_type(status),
        "code": code,
        "param": pointed(pointer) or None if pointer is not None else None,
    }
    # SDKs try a 5xx again, which helps where we are busy and not where we lack something.
    again = (("x-should-retry", "false"),) if error.code == NotImplementedYet.code else ()
    return _json_response(status, {"error": told, "detail": error.message}, again)


def run_error_response(failed: RunFailed, started: RunStarted, *, status: int, headers: Headers = ()) -> HttpResponse:
    """The answer of a run that failed and was not streamed. Without the header, SDKs would run it three times."""
    response = "resp_" + started.run_id.removeprefix("run_")
    document = {"error": error_object(failed), "detail": failed.message, "response_id": response}
    return _json_response(status, document, (*headers, ("x-should-retry", "false")))


def error_object(ended: RunFailed | RunCancelled) -> dict[str, Any]:
    """How a run ended badly, as the object of an error frame."""
    if isinstance(ended, RunCancelled):
        return {"message": "The run was cancelled.", "type": "model_error", "code": "cancelled", "param": None}
    return {"message": ended.message, "type": "model_error", "code": ended.code, "param": None}


def _error_type(status: int) -> str:
    return _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request")


def _json_response(status: int, document: Any, headers: Headers = ()) -> HttpResponse:
    named = (("content-type", "application/json"), *headers)
    return HttpResponse(status=status, headers=named, body=json.encode(document))

"""Error bodies in OpenAI's shape (contract: responses, 5).

OpenAI's SDKs show `error.message`, MLflow's clients `detail`; the AI SDK's provider prints the whole body. Where SDKs
know another code than ours, `openai_code` is sent.
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
    openai_code = "missing_required_parameter"


class MutuallyExclusive(ConflictingFields):
    openai_code = "mutually_exclusive"


class StringTooLong(InvalidValue):
    openai_code = "string_too_long"


class UnsupportedValue(InvalidValue):
    """A valid value that we do not support."""

    openai_code = "unsupported_value"


class PreviousResponseNotFound(ResponseNotFound):
    """The previous response does not exist or was not stored."""

    openai_code = "previous_response_not_found"


def pointer_to_param(pointer: str) -> str:
    """Convert a JSON pointer to a param: `/input/2/content/0` is `input[2].content[0]`."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in _POINTER_STEP.findall(pointer)]
    return "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps).removeprefix(".")


def error_response(
    error: PalaverError, *, status: int, to_param: Callable[[str], str] = pointer_to_param
) -> HttpResponse:
    """The response to a request that started no run. `to_param` converts a pointer into the Call."""
    if isinstance(error, FaultyCall):
        error = error.faults[0]  # The body has room for one.
    pointer = error.pointer if isinstance(error, RequestError) else None
    code = getattr(error, "openai_code", None) or _OPENAI_CODES.get(error.code, error.code)
    error_fields = {
        "message": error.message,
        "type": _error_type(status),
        "code": code,
        "param": to_param(pointer) or None if pointer is not None else None,
    }
    # SDKs retry a 5xx. That helps if the server is busy, not if the feature is missing.
    retry_headers = (("x-should-retry", "false"),) if error.code == NotImplementedYet.code else ()
    return _json_response(status, {"error": error_fields, "detail": error.message}, retry_headers)


def run_error_response(failed: RunFailed, started: RunStarted, *, status: int, headers: Headers = ()) -> HttpResponse:
    """The response of a failed run that was not streamed. Without x-should-retry SDKs would run it three times."""
    response = "resp_" + started.run_id.removeprefix("run_")
    document = {"error": error_object(failed), "detail": failed.message, "response_id": response}
    return _json_response(status, document, (*headers, ("x-should-retry", "false")))


def error_object(ended: RunFailed | RunCancelled) -> dict[str, Any]:
    """The error object of a run that failed or was cancelled."""
    if isinstance(ended, RunCancelled):
        return {"message": "The run was cancelled.", "type": "model_error", "code": "cancelled", "param": None}
    return {"message": ended.message, "type": "model_error", "code": ended.code, "param": None}


def _error_type(status: int) -> str:
    return _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request")


def _json_response(status: int, document: Any, headers: Headers = ()) -> HttpResponse:
    named = (("content-type", "application/json"), *headers)
    return HttpResponse(status=status, headers=named, body=json.encode(document))

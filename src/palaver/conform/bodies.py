"""Response objects and finished items, as snapshots of a stream or as a whole body: I12, I14, I15, I18 and B1 to B4."""

from collections.abc import Mapping
from typing import Any

from palaver.conform.findings import Findings, as_object, list_in, number_in, object_in, shown, text_in
from palaver.conform.frames import Frame

_STATUSES: Mapping[str, tuple[str, ...]] = {
    "created": ("queued", "in_progress"),
    "queued": ("queued",),
    "in_progress": ("in_progress",),
    "completed": ("completed",),
    "failed": ("failed",),
    "incomplete": ("incomplete", "cancelled"),
    "whole": ("completed", "incomplete", "cancelled", "queued", "in_progress"),
}
_NUMBER = (int, float)
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "created_at": _NUMBER,
    "error": dict,
    "incomplete_details": dict,
    "instructions": (str, list),
    "max_output_tokens": int,
    "metadata": dict,
    "model": str,
    "parallel_tool_calls": bool,
    "previous_response_id": str,
    "reasoning": dict,
    "temperature": _NUMBER,
    "tools": list,
    "top_p": _NUMBER,
    "truncation": str,
}
_NEVER_NULL = """background created_at frequency_penalty id metadata model object output parallel_tool_calls
    presence_penalty service_tier status store temperature text tool_choice tools top_logprobs top_p
    truncation""".split()
_MAY_BE_NULL = """completed_at conversation error incomplete_details instructions max_output_tokens max_tool_calls
    previous_response_id prompt_cache_key reasoning safety_identifier usage""".split()
_MLFLOW_ITEMS = """message function_call function_call_output reasoning mcp_approval_request mcp_approval_response
    file_search_call computer_call web_search_call""".split()
# MLflow takes these statuses, and these kinds of item with no other.
_ITEM_STATUSES = ("in_progress", "completed", "incomplete")
_WITH_STATUS = _MLFLOW_ITEMS[:6]
_OPENAI_ITEMS = [
    *_MLFLOW_ITEMS,
    *"""additional_tools apply_patch_call apply_patch_call_output code_interpreter_call compaction computer_call_output
    custom_tool_call custom_tool_call_output image_generation_call local_shell_call local_shell_call_output mcp_call
    mcp_list_tools program program_output shell_call shell_call_output tool_search_call tool_search_output""".split(),
]
_NEEDED = {
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id",),
    "mcp_approval_request": ("name", "arguments", "server_label"),
}
# What a person or a model gets of an item; the rest (status, logprobs) may differ and nobody would notice.
_ESSENCE = ("type", "id", "call_id", "name", "arguments", "output", "text", "refusal", "value", "data")


def check_response(findings: Findings, frame: Frame | None, body: dict[str, Any], event: str) -> None:
    """A response object; `event` is the last word of the type that carries it, or `whole`."""
    broke = findings.broke
    if list_in(body, "output") is None:
        broke("F3", frame, f"output is {shown(body.get('output'))}, not a list")
    if body.get("object") != "response" or not text_in(body, "id"):
        broke("B1", frame, f"object is {shown(body.get('object'))}, id is {shown(body.get('id'))}")
    status = body.get("status")
    if status not in _STATUSES[event]:
        broke("B1", frame, f"status is {shown(status)}")
    elif status == "failed" and not _is_told(object_in(body, "error")):
        broke("B1", frame, f"it failed, and error is {shown(body.get('error'))}")
    elif status in ("incomplete", "cancelled") and not text_in(object_in(body, "incomplete_details") or {}, "reason"):
        broke("B1", frame, f"it is {status}, and incomplete_details is {shown(body.get('incomplete_details'))}")
    _check_keys(findings, frame, body)
    _check_usage(findings, frame, body.get("usage"))


def check_item(findings: Findings, frame: Frame | None, item: dict[str, Any]) -> None:
    """A finished item, of which it is known that it has a type."""
    broke, kind = findings.broke, str(item.get("type"))
    if findings.protocol == "invocations":
        if kind not in _MLFLOW_ITEMS:
            broke("I14", frame, f"MLflow knows no item type {shown(kind)}")
    elif kind not in _OPENAI_ITEMS and not kind.startswith("palaver:"):
        broke("I14b", frame, f"OpenAI knows no item type {shown(kind)}, and it does not begin palaver:")
    for name in ("id", *_NEEDED.get(kind, ())):
        if not isinstance(item.get(name), str) and (findings.protocol == "responses" or name != "id" or name in item):
            broke("I15", frame, f"{name} of the {kind} is {shown(item.get(name))}")
    # OpenAI's outputs may be lists of parts; ours are strings, as MLflow wants them.
    allowed = str if findings.protocol == "invocations" else (str, list)
    if kind == "function_call_output" and not isinstance(item.get("output"), allowed):
        broke("I15", frame, f"output is {shown(item.get('output'))}")
    status = item.get("status")
    known = findings.protocol == "responses" or kind not in _WITH_STATUS or status in _ITEM_STATUSES
    if status is not None and not (isinstance(status, str) and known):
        broke("F3", frame, f"status of the {kind} is {shown(status)}")
    if kind == "message":
        _check_message(findings, frame, item)
    elif kind == "reasoning" and not _is_summary(list_in(item, "summary")):
        broke("I15", frame, f"summary is {shown(item.get('summary'))}")


def _is_summary(parts: list[Any] | None) -> bool:
    return parts is not None and all(text_in(as_object(part) or {}, "text") is not None for part in parts)


def _check_message(findings: Findings, frame: Frame | None, item: dict[str, Any]) -> None:
    broke, content = findings.broke, list_in(item, "content")
    if item.get("role") != "assistant":
        broke("I15", frame, f"role is {shown(item.get('role'))}")
    if not content:
        broke("I15", frame, f"content is {shown(item.get('content'))}")
        return
    if len(content) > 1:
        broke("I15b", frame, f"it has {len(content)} parts")
    for part in content:
        match part:
            case {"type": "output_text", "text": str(text)}:
                if not text:
                    broke("I15b", frame, "its text is empty")
                _check_annotations(findings, frame, part)
            case {"type": "refusal", "refusal": str(text)}:
                if not text:
                    broke("I15b", frame, "its refusal is empty")
                if findings.protocol == "invocations":
                    broke("I18", frame, "it has a refusal part")
            case _:
                broke("I15", frame, f"a part is {shown(part)}")


def _check_annotations(findings: Findings, frame: Frame | None, part: dict[str, Any]) -> None:
    annotations = list_in(part, "annotations")
    if annotations is None:
        findings.broke("I15", frame, f"annotations is {shown(part.get('annotations'))}")
        return
    for annotation in annotations:
        match annotation:
            case {"type": "url_citation", "url": str(), "start_index": int(), "end_index": int()}:
                pass
            case {"type": str()} if findings.protocol == "responses":
                pass
            case _:
                findings.broke("I18", frame, f"an annotation is {shown(annotation)}")


def check_output(findings: Findings, frame: Frame, output: list[Any], finished: Mapping[int, dict[str, Any]]) -> None:
    """The terminal output against the done items."""
    done = [item for _, item in sorted(finished.items())]
    if output == done:
        return
    if [essence(item) for item in output] == [essence(item) for item in done]:
        findings.broke("I12b", frame, _difference(output, done))
    else:
        findings.broke("I12", frame, _difference(output, done))


def essence(value: Any) -> Any:
    """What is said in an item."""
    item = as_object(value)
    if item is None:
        return value
    kept: dict[str, Any] = {name: item[name] for name in _ESSENCE if name in item}
    for name in ("content", "summary"):
        if (parts := list_in(item, name)) is not None:
            kept[name] = [essence(part) for part in parts]
    return kept


def _difference(output: list[Any], done: list[dict[str, Any]]) -> str:
    if len(output) != len(done):
        return f"output has {len(output)} items, {len(done)} were done"
    index = next(index for index, (one, other) in enumerate(zip(output, done, strict=True)) if one != other)
    return f"output[{index}] is {shown(output[index])}, done was {shown(done[index])}"


def _check_keys(findings: Findings, frame: Frame | None, body: dict[str, Any]) -> None:
    for name, types in _TYPES.items():
        if body.get(name) is not None and not isinstance(body[name], types):
            findings.broke("F3", frame, f"{name} is {shown(body[name])}")
    if findings.protocol == "invocations":
        if nulls := [name for name, value in body.items() if value is None]:
            findings.broke("B3", frame, f"null: {shown(nulls)}")
        return
    if missing := [name for name in (*_NEVER_NULL, *_MAY_BE_NULL) if name not in body]:
        findings.broke("B2", frame, f"missing: {shown(missing)}")
    if nulls := [name for name in _NEVER_NULL if name in body and body[name] is None]:
        findings.broke("B2", frame, f"null: {shown(nulls)}")


def _check_usage(findings: Findings, frame: Frame | None, usage: Any) -> None:
    if usage is None:
        return
    told = as_object(usage) or {}
    counts = all(number_in(told, name) is not None for name in ("input_tokens", "output_tokens", "total_tokens"))
    cached = number_in(object_in(told, "input_tokens_details") or {}, "cached_tokens")
    reasoning = number_in(object_in(told, "output_tokens_details") or {}, "reasoning_tokens")
    if not counts or cached is None or reasoning is None:
        findings.broke("B4", frame, f"usage is {shown(usage)}")


def _is_told(error: dict[str, Any] | None) -> bool:
    return error is not None and text_in(error, "code") is not None and text_in(error, "message") is not None

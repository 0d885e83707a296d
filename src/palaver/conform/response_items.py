"""Check response objects and items, in a stream or in a complete body: I12, I14, I15, I18 and B1 to B4."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from palaver.conform.findings import Findings, as_object, list_in, number_in, object_in, quote, text_in
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
_FIELD_TYPES: Mapping[str, type | tuple[type, ...]] = {
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
# MLflow accepts only these statuses on items of the types in _WITH_STATUS.
_ITEM_STATUSES = ("in_progress", "completed", "incomplete")
_WITH_STATUS = _MLFLOW_ITEMS[:6]
_OPENAI_ITEMS = [
    *_MLFLOW_ITEMS,
    *"""additional_tools apply_patch_call apply_patch_call_output code_interpreter_call compaction computer_call_output
    custom_tool_call custom_tool_call_output image_generation_call local_shell_call local_shell_call_output mcp_call
    mcp_list_tools program program_output shell_call shell_call_output tool_search_call tool_search_output""".split(),
]
_REQUIRED_FIELDS = {
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id",),
    "mcp_approval_request": ("name", "arguments", "server_label"),
    "mcp_call": ("name", "arguments", "server_label"),
}
# The fields of an item that clients use; the others (status, logprobs) may differ.
_COMPARED_KEYS = ("type", "id", "call_id", "name", "arguments", "output", "text", "refusal", "value", "data")


def check_response(findings: Findings, frame: Frame | None, body: dict[str, Any], event: str) -> None:
    """Check a response object; `event` is the last part of its event's type, or `whole` for a complete body."""
    add = findings.add
    if list_in(body, "output") is None:
        add("F3", frame, f"output is {quote(body.get('output'))}, not a list")
    if body.get("object") != "response" or not text_in(body, "id"):
        add("B1", frame, f"object is {quote(body.get('object'))}, id is {quote(body.get('id'))}")
    status = body.get("status")
    if status not in _STATUSES[event]:
        add("B1", frame, f"unexpected status {quote(status)}")
    elif status == "failed" and not _has_error_text(object_in(body, "error")):
        add("B1", frame, f"status is failed, but error is {quote(body.get('error'))}")
    elif status in ("incomplete", "cancelled") and not text_in(object_in(body, "incomplete_details") or {}, "reason"):
        add("B1", frame, f"status is {status}, but incomplete_details is {quote(body.get('incomplete_details'))}")
    _check_keys(findings, frame, body)
    _check_usage(findings, frame, body.get("usage"))


def check_item(findings: Findings, frame: Frame | None, item: dict[str, Any]) -> None:
    """Check a finished item, which has a type."""
    add, kind = findings.add, str(item.get("type"))
    if findings.protocol == "invocations":
        if kind not in _MLFLOW_ITEMS:
            add("I14", frame, f"MLflow doesn't know item type {quote(kind)}")
    elif kind not in _OPENAI_ITEMS and not kind.startswith("palaver:"):
        add("I14b", frame, f"item type {quote(kind)} is neither OpenAI's nor palaver:*")
    for name in ("id", *_REQUIRED_FIELDS.get(kind, ())):
        if not isinstance(item.get(name), str) and (findings.protocol == "responses" or name != "id" or name in item):
            add("I15", frame, f"invalid {name} in {kind} item: {quote(item.get(name))}")
    # OpenAI's outputs may be lists of parts; ours are strings, as MLflow requires.
    allowed = str if findings.protocol == "invocations" else (str, list)
    if kind == "function_call_output" and not isinstance(item.get("output"), allowed):
        add("I15", frame, f"invalid output in {kind} item: {quote(item.get('output'))}")
    status = item.get("status")
    is_valid = findings.protocol == "responses" or kind not in _WITH_STATUS or status in _ITEM_STATUSES
    if status is not None and not (isinstance(status, str) and is_valid):
        add("F3", frame, f"invalid status in {kind} item: {quote(status)}")
    if kind == "message":
        _check_message(findings, frame, item)
    elif kind == "reasoning" and not _is_summary(list_in(item, "summary")):
        add("I15", frame, f"invalid summary: {quote(item.get('summary'))}")


def _is_summary(parts: list[Any] | None) -> bool:
    return parts is not None and all(text_in(as_object(part) or {}, "text") is not None for part in parts)


def _check_message(findings: Findings, frame: Frame | None, item: dict[str, Any]) -> None:
    add, content = findings.add, list_in(item, "content")
    if item.get("role") != "assistant":
        add("I15", frame, f"message has role {quote(item.get('role'))}")
    if not content:
        add("I15", frame, f"message has content {quote(item.get('content'))}")
        return
    if len(content) > 1:
        add("I15b", frame, f"message has {len(content)} parts")
    for part in content:
        match part:
            case {"type": "output_text", "text": str(text)}:
                if not text:
                    add("I15b", frame, "message text is empty")
                _check_annotations(findings, frame, part)
            case {"type": "refusal", "refusal": str(text)}:
                if not text:
                    add("I15b", frame, "refusal is empty")
                if findings.protocol == "invocations":
                    add("I18", frame, "message has a refusal part")
            case _:
                add("I15", frame, f"invalid content part: {quote(part)}")


def _check_annotations(findings: Findings, frame: Frame | None, part: dict[str, Any]) -> None:
    annotations = list_in(part, "annotations")
    if annotations is None:
        findings.add("I15", frame, f"annotations is {quote(part.get('annotations'))}, not a list")
        return
    for annotation in annotations:
        match annotation:
            case {"type": "url_citation", "url": str(), "start_index": int(), "end_index": int()}:
                pass
            case {"type": str()} if findings.protocol == "responses":
                pass
            case _:
                findings.add("I18", frame, f"unsupported annotation: {quote(annotation)}")


def check_output(findings: Findings, frame: Frame, output: list[Any], finished: Mapping[int, dict[str, Any]]) -> None:
    items = [item for _, item in sorted(finished.items())]
    if output == items:
        return
    is_comparable = list(map(comparable, output)) == list(map(comparable, items))
    findings.add("I12b" if is_comparable else "I12", frame, _output_difference(output, items))


def comparable(value: Any) -> Any:
    """Return the fields of an item that clients use."""
    item = as_object(value)
    if item is None:
        return value
    fields: dict[str, Any] = {name: item[name] for name in _COMPARED_KEYS if name in item}
    for name in ("content", "summary"):
        if (parts := list_in(item, name)) is not None:
            fields[name] = [comparable(part) for part in parts]
    return fields


def _output_difference(output: list[Any], items: list[dict[str, Any]]) -> str:
    if len(output) != len(items):
        return f"items in output: {len(output)}, finished items: {len(items)}"
    index = next(index for index, (one, other) in enumerate(zip(output, items, strict=True)) if one != other)
    return f"output[{index}] is {quote(output[index])}, but the finished item is {quote(items[index])}"


def _check_keys(findings: Findings, frame: Frame | None, body: dict[str, Any]) -> None:
    for name, types in _FIELD_TYPES.items():
        if body.get(name) is not None and not isinstance(body[name], types):
            findings.add("F3", frame, f"invalid {name}: {quote(body[name])}")
    if findings.protocol == "invocations":
        if nulls := [name for name, value in body.items() if value is None]:
            findings.add("B3", frame, f"null fields: {quote(nulls)}")
        return
    if missing := [name for name in (*_NEVER_NULL, *_MAY_BE_NULL) if name not in body]:
        findings.add("B2", frame, f"missing fields: {quote(missing)}")
    if nulls := [name for name in _NEVER_NULL if name in body and body[name] is None]:
        findings.add("B2", frame, f"null fields: {quote(nulls)}")


def _check_usage(findings: Findings, frame: Frame | None, usage: Any) -> None:
    if usage is None:
        return
    fields = as_object(usage) or {}
    has_counts = all(number_in(fields, name) is not None for name in ("input_tokens", "output_tokens", "total_tokens"))
    cached = number_in(object_in(fields, "input_tokens_details") or {}, "cached_tokens")
    reasoning = number_in(object_in(fields, "output_tokens_details") or {}, "reasoning_tokens")
    if not has_counts or cached is None or reasoning is None:
        findings.add("B4", frame, f"invalid usage: {quote(usage)}")


def _has_error_text(error: dict[str, Any] | None) -> bool:
    return error is not None and text_in(error, "code") is not None and text_in(error, "message") is not None


class _Stem(NamedTuple):
    """A text that grows by deltas: `response.{stem}.delta`, then `response.{stem}.done`."""

    text_field: str
    """The field of `.done` with the whole text."""
    index_field: str | None
    """The field with the index of its part."""


_STEMS: Mapping[str, _Stem] = {
    "output_text": _Stem("text", "content_index"),
    "refusal": _Stem("refusal", "content_index"),
    "reasoning_text": _Stem("text", "content_index"),
    "reasoning_summary_text": _Stem("text", "summary_index"),
    "function_call_arguments": _Stem("arguments", None),
    "mcp_call_arguments": _Stem("arguments", None),
    "custom_tool_call_input": _Stem("input", None),
}
_PARTS = {"content_part": "content_index", "reasoning_summary_part": "summary_index"}
# The part of each text: a delta needs its part.
_PART_OF_TEXT = {
    "output_text": "content_part",
    "refusal": "content_part",
    "reasoning_summary_text": "reasoning_summary_part",
}
_LIST_FIELDS = {"message": "content", "reasoning": "summary"}
_Key = tuple[str, int]


@dataclass(eq=False)
class _Item:
    id: str
    type: str | None
    index: int | None
    call_id: object = None
    """As in `added`; `done` must repeat it."""
    was_added: bool = True
    """Whether it started with `added`, and not with a delta or complete."""
    is_done: bool = False
    pieces: dict[_Key, list[str]] = field(default_factory=dict[_Key, list[str]])
    complete_texts: set[_Key] = field(default_factory=set[_Key])
    """Texts with a `.done`."""
    parts: dict[_Key, bool] = field(default_factory=dict[_Key, bool])
    """The added parts, and whether they are still open."""
    annotations: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])

    def text(self, stem: str, index: int) -> str | None:
        """Return the joined deltas; None if there were none and none are required."""
        pieces = self.pieces.get((stem, index))
        return "".join(pieces) if pieces is not None else "" if self.was_added else None


class ItemChecker:
    """Checks every item. `unanswered` holds the ids of calls in the input without a result."""

    def __init__(self, findings: Findings, unanswered: Collection[str]) -> None:
        self._add = findings.add
        self._findings = findings
        self._items: dict[str, _Item] = {}
        self._open: list[_Item] = []
        self._next_index = 0
        self._calls: set[str] = set()
        self._unanswered = set(unanswered)
        self.finished: dict[int, dict[str, Any]] = {}
        """Finished items, by index."""

    def feed(self, frame: Frame, kind: str, value: dict[str, Any]) -> None:
        """Check a frame of an item; `kind` is its type without `response.`."""
        if kind in ("output_item.added", "output_item.done"):
            item_object = object_in(value, "item")
            identity = self._identity(item_object) if item_object is not None else None
            if item_object is None or text_in(item_object, "type") is None:
                self._add("F3", frame, "missing item, or item without type")
            elif identity is None:
                self._add("I15", frame, f"item id is {quote(item_object.get('id'))}, not a string")
            elif kind == "output_item.added":
                self._item_added(frame, identity, item_object, value)
            else:
                self._item_done(frame, identity, item_object, value)
            return
        identity = text_in(value, "item_id")
        if identity is None:
            self._add("F3", frame, f"item_id is {quote(value.get('item_id'))}, not a string")
            return
        item = self._find_item(frame, identity, value)
        if item is not None:
            self._add_content(frame, item, kind, value)

    def end(self, frame: Frame) -> None:
        """Report the items that are still open at the end of the run."""
        for item in self._open:
            self._add("I7", frame, f"item {quote(item.id)} never finished")
            item.is_done = True
        self._open.clear()

    # Start and end of an item

    def _identity(self, item_object: dict[str, Any]) -> str | None:
        """Return its id. MLflow's tool results have none, and are identified by their call."""
        if self._findings.protocol == "invocations" and "id" not in item_object and "call_id" in item_object:
            return f"{item_object.get('type')} of {item_object['call_id']}"
        return text_in(item_object, "id")

    def _item_added(self, frame: Frame, identity: str, item_object: dict[str, Any], value: dict[str, Any]) -> None:
        kind = text_in(item_object, "type") or ""
        item = self._start_item(frame, identity, kind, value)
        if item is None:
            return
        item.call_id = item_object.get("call_id")
        if kind in _LIST_FIELDS and list_in(item_object, _LIST_FIELDS[kind]) is None:
            self._add("F3", frame, f"{_LIST_FIELDS[kind]} of the added {kind} item is not a list")
        if kind == "function_call":
            arguments = text_in(item_object, "arguments")
            if arguments is None:
                self._add("F3", frame, f"arguments is {quote(item_object.get('arguments'))}, not a string")
            elif arguments:  # Deltas continue it.
                item.pieces["function_call_arguments", 0] = [arguments]

    def _item_done(self, frame: Frame, identity: str, item_object: dict[str, Any], value: dict[str, Any]) -> None:
        item = self._items.get(identity)
        if item is None:
            index = number_in(value, "output_index")
            other = next((known for known in self._open if known.index == index and index is not None), None)
            if other is not None:
                self._add("I5", frame, f"item was added as {quote(other.id)} but finished as {quote(identity)}")
                item = self._items[identity] = other
            else:
                self._add("I7b", frame, "item finished but was never added")
                item = self._start_item(frame, identity, text_in(item_object, "type"), value, was_added=False)
                assert item is not None
        elif item.is_done:
            self._add("I7", frame, "item had already finished")
            return
        self._check_position(frame, item, value)
        self._check_texts(frame, item, item_object)
        self._check_call(frame, item_object)
        check_item(self._findings, frame, item_object)
        item.is_done = True
        self._open.remove(item)
        self.finished[item.index if item.index is not None else len(self.finished)] = item_object

    def _start_item(
        self, frame: Frame, identity: str, kind: str | None, value: dict[str, Any], *, was_added: bool = True
    ) -> _Item | None:
        if identity in self._items:
            self._add("I6", frame, f"duplicate item id {quote(identity)}")
            return None
        index = number_in(value, "output_index")
        if index != self._next_index:
            self._report_index(frame, value, f"expected {self._next_index}")
        self._next_index = self._next_index + 1 if index is None else max(self._next_index, index + 1)
        # Palaver's own items may be inside another one: clients skip unknown types.
        other = self._last_exclusive()
        if other is not None and not (_is_palaver_item(kind) and not _is_palaver_item(other.type)):
            self._add("I8", frame, f"item starts while {quote(other.id)} is still open")
        item = _Item(identity, kind, index, was_added=was_added)
        self._items[identity] = item
        self._open.append(item)
        return item

    def _find_item(self, frame: Frame, identity: str, value: dict[str, Any]) -> _Item | None:
        """Return the item of a frame, started here if it was never added; None if it is already done."""
        item = self._items.get(identity)
        if item is None:
            self._add("I7b", frame, f"item {quote(identity)} was never added")
            return self._start_item(frame, identity, None, value, was_added=False)
        if item.is_done:
            self._add("I7", frame, f"frame after item {quote(identity)} finished")
            return None
        self._check_position(frame, item, value)
        return item

    def _check_position(self, frame: Frame, item: _Item, value: dict[str, Any]) -> None:
        if number_in(value, "output_index") != item.index:
            self._report_index(frame, value, f"but its item has {item.index}")
        other = self._last_exclusive()
        if other is not None and other is not item and item.type != "mcp_call":
            self._add("I8", frame, f"frame interrupts item {quote(other.id)}")
        item_object = object_in(value, "item")
        if item_object is not None and item.type not in (None, item_object["type"]):
            self._add("I5", frame, f"item was added as {quote(item.type)} but finished as {quote(item_object['type'])}")
        elif item_object is not None and item.was_added and item.call_id != item_object.get("call_id"):
            self._add("I5", frame, f"call_id changed from {quote(item.call_id)} to {quote(item_object.get('call_id'))}")

    def _last_exclusive(self) -> _Item | None:
        """Return the last open item that no other item may overlap."""
        return next((item for item in reversed(self._open) if item.type != "mcp_call"), None)

    def _report_index(self, frame: Frame, value: dict[str, Any], expected: str) -> None:
        is_faulty = "output_index" in value and number_in(value, "output_index") is None
        self._add("F3" if is_faulty else "I5", frame, f"output_index is {quote(value.get('output_index'))}, {expected}")

    # Content

    def _add_content(self, frame: Frame, item: _Item, kind: str, value: dict[str, Any]) -> None:
        stem, _, verb = kind.rpartition(".")
        if stem in _STEMS and verb in ("delta", "done"):
            self._feed_text(frame, item, stem, verb, value)
        elif stem in _PARTS and verb in ("added", "done"):
            self._feed_part(frame, item, stem, verb, value)
        elif kind == "output_text.annotation.added":
            index = self._read_index(frame, value, "content_index")
            added = item.annotations.setdefault(index, [])
            if object_in(value, "annotation") is None:
                self._add("F3", frame, f"annotation is {quote(value.get('annotation'))}, not an object")
            if number_in(value, "annotation_index") != len(added):
                received = quote(value.get("annotation_index"))
                self._add("I10b", frame, f"annotation_index is {received}, not {len(added)}")
            added.append(value.get("annotation"))

    def _read_index(self, frame: Frame, value: dict[str, Any], name: str | None) -> int:
        if name is None:
            return 0
        index = number_in(value, name)
        if index != 0:
            # SDKs need this index. MLflow's own agents omit it, and their clients don't use it.
            is_omitted = self._findings.protocol == "invocations" and name not in value
            rule = "F3" if index is None and not is_omitted else "I10"
            self._add(rule, frame, f"{name} is {quote(value.get(name))}, not 0")
        return index or 0

    def _feed_text(self, frame: Frame, item: _Item, stem: str, verb: str, value: dict[str, Any]) -> None:
        fields = _STEMS[stem]
        index = self._read_index(frame, value, fields.index_field)
        key = (stem, index)
        name = "delta" if verb == "delta" else fields.text_field
        text = text_in(value, name)
        if text is None:
            self._add("F3", frame, f"{name} is {quote(value.get(name))}, not a string")
            return
        if key in item.complete_texts:
            self._add("I7", frame, f"{stem} had already finished")
            return
        part = _PART_OF_TEXT.get(stem)
        if part is not None and item.was_added and not item.parts.get((part, index)):
            self._add("I7b", frame, f"{stem} without an open {part}")
        if verb == "delta":
            if stem == "output_text" and item.annotations.get(index):
                self._add("I10b", frame, "delta after an annotation")
            item.pieces.setdefault(key, []).append(text)
            return
        item.complete_texts.add(key)
        self._compare(frame, item, key, text, "done text")

    def _feed_part(self, frame: Frame, item: _Item, stem: str, verb: str, value: dict[str, Any]) -> None:
        index = self._read_index(frame, value, _PARTS[stem])
        key, part = (stem, index), object_in(value, "part")
        if part is None or text_in(part, "type") is None:
            self._add("F3", frame, "missing part, or part without type")
            return
        if verb == "added":
            if key in item.parts:
                self._add("I7b", frame, "part was already added")
            item.parts[key] = True
            return
        if not item.parts.get(key) and item.was_added:
            self._add("I7b", frame, "part finished but is not open")
        item.parts[key] = False
        self._compare_part(frame, item, index, part)

    def _check_texts(self, frame: Frame, item: _Item, item_object: dict[str, Any]) -> None:
        if item.was_added:
            needed = {("function_call_arguments", 0)} if item_object["type"] == "function_call" else set[_Key]()
            for key in (item.pieces.keys() | needed) - item.complete_texts:
                self._add("I7b", frame, f"{key[0]} has no done frame")
            for key in (key for key, is_open in item.parts.items() if is_open):
                self._add("I7b", frame, f"{key[0]} has no done frame")
        for name in ("content", "summary"):
            for index, part in enumerate(list_in(item_object, name) or ()):
                self._compare_part(frame, item, index, as_object(part) or {})
        if item_object["type"] == "function_call" and (arguments := text_in(item_object, "arguments")) is not None:
            self._compare(frame, item, ("function_call_arguments", 0), arguments, "arguments")

    def _compare_part(self, frame: Frame, item: _Item, index: int, part: dict[str, Any]) -> None:
        match part:
            case {"type": "output_text", "text": str(text)}:
                self._compare(frame, item, ("output_text", index), text, "part text")
                annotations, added = list_in(part, "annotations") or [], item.annotations.get(index, [])
                if item.was_added and annotations != added:
                    self._add("I10b", frame, f"annotations are {quote(annotations)}, but {quote(added)} were added")
            case {"type": "refusal", "refusal": str(text)}:
                self._compare(frame, item, ("refusal", index), text, "refusal")
            case {"type": "summary_text", "text": str(text)}:
                self._compare(frame, item, ("reasoning_summary_text", index), text, "summary text")
            case _:
                pass

    def _compare(self, frame: Frame, item: _Item, key: _Key, text: str, what: str) -> None:
        deltas = item.text(*key)
        if deltas is not None and deltas != text:
            self._add("I9", frame, f"{what} is {quote(text)}, but the deltas add up to {quote(deltas)}")

    def _check_call(self, frame: Frame, item_object: dict[str, Any]) -> None:
        call = text_in(item_object, "call_id")
        if call is None:
            return
        if item_object["type"] == "function_call":
            if call in self._calls:
                self._add("I6", frame, f"duplicate call_id {quote(call)}")
            self._calls.add(call)
            self._unanswered.add(call)
        elif item_object["type"] == "function_call_output":
            if call not in self._unanswered:
                self._add("I11", frame, f"call_id {quote(call)} does not match an open function call")
            self._unanswered.discard(call)


def _is_palaver_item(kind: str | None) -> bool:
    return (kind or "").startswith("palaver:")

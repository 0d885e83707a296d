"""Detect whether a value is a list of messages, and in which dialect.

Used by replies, requests, tables and evaluators alike. Nothing here raises for JSON values. Only dicts and lists match;
tuples, bytes and other objects are leaves. The search for messages inside a larger value is in core/extraction.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast, get_args

import msgspec

from palaver.core.json import (
    Object,
    as_dict,
    as_str,
    dict_get,
    dict_or_empty,
    is_list,
    is_object,
    is_text,
    list_items,
    optional_int,
    plain_copy,
)
from palaver.core.messages import ROLE_ALIASES, Role, parse_role


def content_of(element: Object) -> Any:
    """Return the content of an element: non-empty parts, else the first of several keys."""
    parts = element.get("parts")
    if parts is not None and is_list(parts) and (inner := list_items(parts)):
        return inner
    content = element.get("content")
    if is_text(content) or is_list(content) or is_object(content):
        return content
    for key in ("text", "message"):
        if element.get(key) is not None:
            return element[key]
    inner = dict_or_empty(element.get("delta")).get("content")
    return content if inner is None else inner


WritableDialect = Literal[
    "langchain", "responses", "palaver", "gemini", "gen-ai", "ui-message", "anthropic", "chat-completions"
]
ReadOnlyDialect = Literal["autogen", "llama-index", "pydantic-ai", "sharegpt"]
Dialect = ReadOnlyDialect | WritableDialect
DIALECTS: tuple[WritableDialect, ...] = get_args(WritableDialect)
_PRECEDENCE: tuple[Dialect, ...] = (*get_args(ReadOnlyDialect), *DIALECTS)
"""A list that mixes dialects is reported as the first of them."""

KNOWN_ROLES = frozenset("system developer user human assistant ai model bot chatbot agent tool function".split())

_ABSENT: Any = object()
_DICT, _LIST, _STR_OR_DICT = (dict,), (list,), (str, dict)
# `type(x) in _DICT` means `type(x) is dict`, but pyright would narrow the latter to dict[Unknown, Unknown].
_PALAVER_TYPES = frozenset({"text", "reasoning", "file", "tool-call", "tool-result", "refusal", "data"})
_UI_TYPES = ("tool-", "data-", "source-", "dynamic-tool", "step-start")
"""Beginnings of the types of parts that only UI messages have."""
_GEMINI_FIELDS = frozenset(
    "text functionCall functionResponse inlineData fileData executableCode codeExecutionResult function_call"
    " function_response inline_data file_data executable_code code_execution_result".split()
)
_GEN_AI_TYPES = frozenset("tool_call tool_call_response server_tool_call server_tool_call_response blob uri".split())
_DIALECT_BY_PART_TYPE: dict[str, Dialect] = {
    **dict.fromkeys("tool_use tool_result thinking redacted_thinking server_tool_use".split(), "anthropic"),
    **dict.fromkeys("input_text output_text input_image input_file".split(), "responses"),
}
_LANGCHAIN_TYPES = frozenset("human ai system tool function".split())
_LANGCHAIN_CHUNKS = frozenset(f"{kind}MessageChunk" for kind in ("Human", "AI", "System", "Tool", "Function", "Chat"))

_PAIR_ROLES = {"human": "human", "user": "human", "ai": "ai", "assistant": "ai", "system": "system"}
"""LangChain's type of message by the role in a pair."""
SHAREGPT_ROLES: dict[str, Role] = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "assistant", "model", "bing", "bard", "function_call"), "assistant"),
    **dict.fromkeys(("tool", "observation", "function_response"), "tool"),
    "system": "system",
}
_SPEAKERS = ("user", "assistant")
_AUTOGEN_MODEL_TYPES = ("SystemMessage", "UserMessage", "AssistantMessage", "FunctionExecutionResultMessage")
_AUTOGEN_TEAM_TYPES = frozenset(
    "TextMessage MultiModalMessage StopMessage HandoffMessage ToolCallRequestEvent ToolCallExecutionEvent"
    " ToolCallSummaryMessage ThoughtEvent".split()
)

_DISTINCTIVE_KEYS = frozenset(("type", "parts", "content"))
_COMMON_TYPES = ("text", "image_url")
_RESPONSES_TEXT_TYPES = ("input_text", "output_text")
_NO_TYPE = (None,)
_LANGCHAIN: "Detection" = ("langchain", True)
_RESPONSES: "Detection" = ("responses", True)
_GEMINI: "Detection" = ("gemini", True)
_UI_MESSAGE: "Detection" = ("ui-message", True)
_GEN_AI: "Detection" = ("gen-ai", True)
_CHAT_COMPLETIONS: dict[bool, tuple[Dialect, bool]] = {flag: ("chat-completions", flag) for flag in (True, False)}


def speaker_role(element: Object) -> str | None:
    """Return the role of an element: any `role`, or a `sender` or `author` that is a known role."""
    role = dict_get(element, "role")
    if is_text(role) and (role_name := str.__str__(role)):
        return role_name
    sender = dict_get(element, "sender")
    if type(sender) is str and sender in KNOWN_ROLES:
        return sender
    for key in ("sender", "author"):
        sender_name = dict_get(element, key)
        if is_text(sender_name) and is_known_role(sender_name):
            return str.__str__(sender_name)
    return None


def read_role(element: Object, default: str = "", *, answers_a_call: bool = False) -> tuple[Role, str | None]:
    """Return the role of an element, and the name that an unknown role stands for (see `parse_role`)."""
    role_text = element.get("role")
    role = ROLE_ALIASES.get(role_text) if type(role_text) is str else None
    if role is not None:
        return role, None
    return parse_role(speaker_role(element) or default, answers_a_call=answers_a_call)


def is_known_role(role: str) -> bool:
    """Whether the role marks a conversation; case is ignored."""
    return role in KNOWN_ROLES or str.lower(role) in KNOWN_ROLES


def has_content(element: Object) -> bool:
    """Whether the element carries content."""
    content = element.get("content", _ABSENT)
    if content is not _ABSENT and (type(content) is str or content is None or _is_strings_and_objects(content)):
        return True
    if "parts" in element and _is_strings_and_objects(element["parts"]):
        return True
    if type(element.get("text")) is str:
        return True
    delta = element.get("delta")
    return (
        is_text(content)
        or (is_object(content) and is_text(dict_get(content, "type")))
        or is_text(element.get("text"))
        or is_text(element.get("message"))
        or _is_object_list(element.get("tool_calls"))
        or is_object(element.get("function_call"))
        or is_text(element.get("tool_call_id"))
        or (is_object(delta) and is_text(dict_get(delta, "content")))
    )


def is_message(value: Object) -> bool:
    """Whether the object is certainly a message, so that texts in it must not be searched."""
    detection = detect_element(as_dict(value))
    return detection is not None and detection[1]


def has_gemini_part(value: Object) -> bool:
    """Whether a part without a type has one of Gemini's fields."""
    parts = dict_get(value, "parts")
    return any(map(_is_gemini, _objects(parts))) if is_list(parts) else False


Detection = tuple[Dialect, bool]
"""The dialect of an element, and whether it proves that the list is a conversation."""


def detect_plain_element(element: Any) -> Detection | None:
    """Return what `detect_element` does, faster, for the most common elements; None for all others."""
    if type(element) not in _DICT:
        return None
    role, content = element.get("role"), element.get("content")
    if role is None:
        return _LANGCHAIN if type(content) is str and _is_plain_langchain(element) else None
    if type(role) is not str or role not in KNOWN_ROLES:
        return None
    if "type" in element:
        return _RESPONSES if _kind(element) == "message" and _starts_with(content, _RESPONSES_TEXT_TYPES) else None
    parts = element.get("parts")
    if parts is None:
        return _CHAT_COMPLETIONS[True] if type(content) is str or (content and has_common_parts(content)) else None
    if type(parts) not in _LIST or not parts or type(part := parts[0]) not in _DICT:
        return None
    if "type" not in part:
        return _GEMINI if type(part.get("text")) is str and _starts_with(parts, _NO_TYPE) else None
    if len(parts) != 1 or len(part) != 2 or _kind(part) != "text":
        return None
    return _UI_MESSAGE if "text" in part else _GEN_AI if "content" in part else None


def has_common_parts(parts: Any) -> bool:
    """Whether all parts are texts and images as in Chat Completions."""
    if type(parts) not in _LIST:
        return False
    for part in parts:
        kind = part.get("type") if type(part) in _DICT else None
        if type(kind) is not str or kind not in _COMMON_TYPES or "source" in part:
            return False
    return True


def _starts_with(parts: Any, kinds: tuple[str | None, ...]) -> bool:
    """Whether `parts` is a list of objects, the first of which has one of these types."""
    if type(parts) not in _LIST or not parts:
        return False
    for part in parts:
        if type(part) not in _DICT:
            return False
    kind = parts[0].get("type")
    return (kind is None or type(kind) is str) and kind in kinds


def _is_plain_langchain(element: Object) -> bool:
    kind = _kind(element)
    if "role" in element or "sender" in element or "author" in element:
        return False
    return kind == "human" or kind == "ai" or (kind == "system" and type(element.get("additional_kwargs")) is dict)  # noqa: PLR1714 - a tuple costs more


def detect_element(element: Object | None) -> Detection | None:
    """Detect the dialect of one element; None if it is not a message."""
    if element is None:
        return None
    role, content = element.get("role"), element.get("content")
    if type(role) is not str or not role:
        role = speaker_role(element)
        if (
            role is not None
            and content is None
            and type(element.get("text")) is str
            and _DISTINCTIVE_KEYS.isdisjoint(element)
        ):
            return _CHAT_COMPLETIONS[is_known_role(role)]  # The format of chat widgets.
    parts = element.get("parts")
    if role is not None and type(content) is str and parts is None and "type" not in element:
        return _CHAT_COMPLETIONS[is_known_role(role)]  # By far the most common.
    known_role = role is not None and is_known_role(role)
    if known_role and has_content(element):
        return _detect_message(element, known_role=True)
    item = _detect_item(element, has_actor=role is not None)
    return item or (_detect_message(element, known_role=False) if role is not None and has_content(element) else None)


def _detect_message(element: Object, *, known_role: bool) -> Detection:
    parts, content = element.get("parts"), element.get("content")
    part_list = list_items(parts) if is_list(parts) else None
    is_anthropic, is_responses = _detect_content(content) if not part_list else (False, False)
    if _kind(element) == "message":
        is_anthropic = is_anthropic or "stop_reason" in element
        is_responses = is_responses or (known_role and not is_anthropic)
    if is_responses:
        return "responses", True
    dialect = _detect_parts(part_list) if part_list or (part_list is not None and "content" not in element) else None
    return dialect or ("anthropic" if is_anthropic else "chat-completions"), known_role


def _detect_content(content: object) -> tuple[bool, bool]:
    """Return whether there are parts only Anthropic has, and parts only Responses has."""
    is_anthropic = is_responses = False
    if type(content) is not str:
        for part in _objects(content):
            dialect = _DIALECT_BY_PART_TYPE.get(_kind(part))
            is_responses = is_responses or dialect == "responses"
            is_anthropic = is_anthropic or dialect == "anthropic" or is_object(dict_get(part, "source"))
    return is_anthropic, is_responses


def unwrap_message(element: Object | None) -> Object | None:
    """Return the message inside OpenInference's `{"message": {…}}`, or None."""
    return as_dict(element.get("message")) if element is not None and speaker_role(element) is None else None


def _detect_parts(parts: list[Any]) -> Dialect | None:
    """Detect the dialect by the parts; None if only the content can tell."""
    all_typed = all_palaver = True
    has_palaver = has_gemini = has_gen_ai = False
    for item in parts:
        part = item if type(item) in _DICT else as_dict(item)
        if part is None:
            all_typed = False
            continue
        kind = _kind(part)
        if not kind:
            all_typed = False
            has_gemini = has_gemini or _is_gemini(part)
        elif kind == "text" and len(part) == 2 and "text" in part:
            pass  # The most common part, in several dialects.
        else:
            is_known = kind in _PALAVER_TYPES
            all_palaver = all_palaver and (is_known or not kind.startswith(_UI_TYPES))
            has_palaver = has_palaver or (is_known and _is_palaver(part, kind))
            has_gen_ai = has_gen_ai or _is_gen_ai(part, kind)
    if all_typed and all_palaver and has_palaver and not has_gen_ai:  # Parts of unknown types are allowed.
        return "palaver"
    if has_gemini:
        return "gemini"
    if has_gen_ai:
        return "gen-ai"
    return "ui-message" if all_typed else None  # Palaver messages with only text and reasoning are read alike.


def _is_gemini(part: Object) -> bool:
    return dict_get(part, "type", _ABSENT) is _ABSENT and not _GEMINI_FIELDS.isdisjoint(Object.keys(part))


def _is_palaver(part: Object, kind: str) -> bool:
    match kind:
        case "refusal":
            return "text" in part
        case "data":
            return "name" in part  # A null value is omitted.
        case "file":
            # A modality marks OpenTelemetry's.
            return "media_type" in part or ("file_id" in part and "modality" not in part)
        case _:
            return "call_id" in part or "encrypted" in part or "media_type" in part or "file_id" in part


def _is_gen_ai(part: Object, kind: str) -> bool:
    if kind in _GEN_AI_TYPES or (kind == "file" and "modality" in part):
        return True
    return kind in ("text", "reasoning") and "content" in part and "text" not in part


def _detect_item(element: Object, *, has_actor: bool) -> Detection | None:
    kind = _kind(element)
    langchain = None if has_actor else _detect_langchain(element, kind)
    if langchain is not None:
        return "langchain", langchain
    item = _detect_response_item(element, kind) if kind else None
    return ("responses", item) if item is not None else None


def _detect_langchain(element: Object, kind: str) -> bool | None:
    """Return whether a LangChain message is certain; None for anything else."""
    if "lc" in element and _is_serialised(element):
        return True
    if kind not in _LANGCHAIN_TYPES and kind not in _LANGCHAIN_CHUNKS:
        return None
    data = element.get("data")
    if is_object(data) and _is_text_or_list(dict_get(data, "content")):
        return True
    if not _is_text_or_list(element.get("content")):
        return None
    if kind in ("human", "ai") or kind in _LANGCHAIN_CHUNKS:
        return True
    return is_object(element.get("additional_kwargs")) or is_object(element.get("response_metadata"))


def _is_serialised(element: Object) -> bool:
    version, path, kwargs = element["lc"], element.get("id"), element.get("kwargs")
    last = list_items(path)[-1:] if is_list(path) else []
    is_message = bool(last) and is_text(last[0]) and str.endswith(last[0], ("Message", "MessageChunk"))
    return (
        type(version) is int
        and version == 1
        and is_message
        and is_object(kwargs)
        and _is_text_or_list(dict_get(kwargs, "content"))
    )


def _detect_response_item(element: Object, kind: str) -> bool | None:
    """Return whether an item of Responses is certain; None for anything else."""
    has_text: Callable[[str], bool] = lambda key: is_text(element.get(key))  # noqa: E731
    match kind:
        case "function_call":
            return True if has_text("name") and has_text("arguments") else None
        case "mcp_call":
            return True if has_text("name") and has_text("arguments") else None
        case "custom_tool_call":
            return True if has_text("name") and has_text("input") else None
        case "function_call_output" | "custom_tool_call_output":
            return True if has_text("call_id") and "output" in element else None
        case "reasoning":
            has_content_field = (
                is_list(element.get("summary")) or is_list(element.get("content")) or has_text("encrypted_content")
            )
            return False if has_content_field else None
        case "mcp_approval_response" if has_text("approval_request_id"):
            return True
        case "palaver:data" | "palaver:file":
            return True if has_text("name") or has_text("media_type") else None
        case _:
            is_other = kind == "item_reference" or kind.endswith(("_call", "_call_output")) or kind.startswith("mcp_")
            return False if is_other and has_text("id") else None


# Other formats, each tried only if an element is none of the above


def is_message_pair(value: object) -> bool:
    """Whether it is LangChain's shorthand for a message: `("human", "hi")`, a list in JSON."""
    if not isinstance(value, list | tuple) or len(value) != 2:  # pyright: ignore[reportUnknownArgumentType]
        return False
    role, content = cast("tuple[Any, Any]", value)
    return type(role) is str and role in _PAIR_ROLES and (is_text(content) or _is_parts(content))


def _is_parts(content: object) -> bool:
    return is_list(content) and all(is_object(part) and "type" in part for part in list_items(content))


def _detect_other(element: Any) -> tuple[Any, Detection | None]:
    """Return an element of another format, or the message that a pair stands for; and what it is."""
    if is_message_pair(element):
        role, content = element
        return {"type": _PAIR_ROLES[role], "content": content}, ("langchain", role != "system")
    fields = as_dict(element)
    if fields is None:
        return None, None
    if "blocks" in fields:
        return fields, _detect_llama_index(fields)
    if "kind" in fields:
        return fields, _detect_pydantic_ai(fields)
    if "from" in fields:
        speaker = fields["from"]
        role = SHAREGPT_ROLES.get(str.lower(speaker)) if is_text(speaker) else None
        is_turn = role is not None and is_text(fields.get("value"))
        return fields, ("sharegpt", role in _SPEAKERS) if is_turn else None
    return fields, _detect_autogen(fields)


def _detect_llama_index(element: Object) -> Detection | None:
    role, blocks = element.get("role"), element["blocks"]
    if not is_text(role) or not is_list(blocks) or not (list_items(blocks) or "additional_kwargs" in element):
        return None
    is_message = all(is_object(block) and is_text(dict_get(block, "block_type")) for block in list_items(blocks))
    return ("llama-index", is_known_role(role)) if is_message else None


def _detect_pydantic_ai(element: Object) -> Detection | None:
    kind, parts = element["kind"], element.get("parts")
    if (kind != "request" and kind != "response") or not is_list(parts):  # noqa: PLR1714 - an odd object may raise
        return None
    part_kinds = [dict_get(part, "part_kind") if is_object(part) else None for part in list_items(parts)]
    return ("pydantic-ai", bool(part_kinds)) if all(map(is_text, part_kinds)) else None


def _detect_autogen(element: Object) -> Detection | None:
    kind, content = _kind(element), element.get("content")
    if kind in _AUTOGEN_MODEL_TYPES:
        has_source = is_text(element.get("source"))
        is_certain = has_source if kind != "FunctionExecutionResultMessage" else is_list(content)
        return ("autogen", is_certain) if _is_text_or_list(content) else None
    name = kind.partition("[")[0]  # `StructuredMessage[Forecast]`
    is_team_type = name in _AUTOGEN_TEAM_TYPES or (name.endswith(("Message", "Event")) and "models_usage" in element)
    return ("autogen", True) if is_team_type and is_text(element.get("source")) and "content" in element else None


def _kind(value: Object) -> str:
    kind = dict_get(value, "type")
    return kind if type(kind) is str else as_str(kind) or ""


def _is_text_or_list(value: object) -> bool:
    return is_text(value) or is_list(value)


def _objects(value: object) -> list[Object]:
    if is_list(value):
        return [item for item in list_items(value) if is_object(item)]
    return [value] if is_object(value) else []


def _is_object_list(value: object) -> bool:
    return is_list(value) and all(is_object(item) for item in list_items(value))


def _is_strings_and_objects(value: Any) -> bool:
    if type(value) not in _LIST:
        return is_list(value) and _is_strings_and_objects(list_items(value))
    for item in value:  # noqa: SIM110 - a generator is slower, and this is the hot path
        if type(item) not in _STR_OR_DICT and not (is_text(item) or is_object(item)):
            return False
    return True


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Consecutive elements of one dialect, unwrapped from OpenInference's `{"message": {…}}`."""

    dialect: Dialect
    elements: list[Any]
    start: int = 0
    """Index of the first element in the original list."""


def is_chat_messages(value: object) -> bool:
    """The strict test: a list of messages, at least one of them with a known role."""
    if not is_list(value):
        return False
    try:
        return _are_messages(list_items(value))
    except Exception:  # Foreign objects, whose methods may raise anything.
        return _are_messages(plain_copy(value))


def _are_messages(elements: list[Any]) -> bool:
    has_known_role = False
    for element in elements:
        fields = element if type(element) in _DICT else as_dict(element)
        if fields is None:
            return False
        role = fields.get("role")
        role_name = role if type(role) is str and role else speaker_role(fields)
        if role_name is None or not (type(fields.get("content")) is str or has_content(fields)):
            return False
        has_known_role = has_known_role or is_known_role(role_name)
    return has_known_role


def dialect_of(value: object) -> Dialect | None:
    """Return the dialect of a list of messages or of one message; None for anything else."""
    try:
        segments = split_by_dialect(value)
    except Exception:  # Foreign objects, whose methods may raise anything.
        segments = split_by_dialect(plain_copy(value))
    return primary_dialect(segments) if segments else None


def primary_dialect(segments: Sequence[Segment]) -> Dialect:
    """Return the dialect of the whole list: the first in DIALECTS that occurs."""
    return (
        segments[0].dialect
        if len(segments) == 1
        else min([segment.dialect for segment in segments], key=_PRECEDENCE.index)
    )


def split_by_dialect(value: object) -> list[Segment] | None:
    """Split a list of messages, or one message, where the dialect changes; None if it is not messages."""
    elements: Any = value if type(value) in _LIST else list_items(value) if is_list(value) else [value]
    if not elements:
        return None
    first: Any = elements[0] if type(elements[0]) in _DICT else as_dict(elements[0])
    first_detection = detect_plain_element(first) or detect_element(first)
    if first_detection is None:
        if (first_detection := detect_element(unwrap_message(first))) is not None:
            elements = [_unwrap(element) for element in elements]
        else:
            first_detection = _detect_other(elements[0])[1]
    if first_detection is None or (not first_detection[1] and all(map(_is_ambiguous, elements))):
        return None
    if first is not None and first.get("object") == "thread.message":
        elements = _oldest_first(elements)
    return _split(elements, first_detection[0])


def _oldest_first(elements: list[Any]) -> list[Any]:
    """Return the messages of OpenAI's threads, which are listed newest first by default, in the order of the thread."""
    first, last = (optional_int(dict_or_empty(element).get("created_at")) for element in (elements[0], elements[-1]))
    return elements[::-1] if first is not None and last is not None and first > last else elements


def _is_ambiguous(element: Any) -> bool:
    """Whether the element could be a log row, such as `{role: admin, content}` or `{type: system, content}`."""
    if type(element) not in _DICT or type(element.get("content")) is not str or "parts" in element:
        return False
    role = element.get("role")
    if type(role) is str and role:
        return "type" not in element and not is_known_role(role)
    kind = element.get("type")
    return (
        (kind == "system" or kind == "tool" or kind == "function")  # noqa: PLR1714 - a tuple costs more
        and not ("sender" in element or "author" in element or "lc" in element or "data" in element)
        and not ("additional_kwargs" in element or "response_metadata" in element)
    )


def _split(elements: list[Any], dialect: Dialect) -> list[Segment] | None:
    segments: list[Segment] = []
    messages: list[Any] = []
    start, is_certain = 0, False
    for index, element in enumerate(elements):
        message = element if type(element) in _DICT else as_dict(element)
        detection = (
            detect_plain_element(message)
            or detect_element(message)
            or detect_element(message := unwrap_message(message))
        )
        if detection is None:
            message, detection = _detect_other(element)
            if detection is None:
                return None
        if detection[0] != dialect:
            if messages:
                segments.append(Segment(dialect, messages, start))
            dialect, messages, start = detection[0], [], index
        messages.append(message)
        is_certain = is_certain or detection[1]
    segments.append(Segment(dialect, messages, start))
    return segments if is_certain else None


def _unwrap(element: Any) -> Any:
    """Unwrap an element that is only `{"message": {…}}`; return others unchanged."""
    inner = element.get("message") if type(element) in _DICT and len(element) == 1 else None
    return inner if type(inner) in _DICT else element


def explain_rejection(value: object) -> tuple[int | None, str]:
    """Return the index of the first element that is not a message, and the reason."""
    if not is_list(value):
        return None, "is not a list of messages"
    for index, element in enumerate(list_items(value)):
        message = as_dict(element)
        is_element = detect_element(message) or detect_element(unwrap_message(message)) or _detect_other(element)[1]
        if not is_element:
            if message is None:
                return index, "is not an object"
            if speaker_role(message) is None:
                return index, "has no role"
            return index, "has no supported content (content, parts, tool_calls, …)"
    return None, "has no message with a known role"

"""Check Chat Completions streams and complete responses: C1 to C14."""

from dataclasses import dataclass, field
from typing import Any

from palaver.conform.findings import Findings, as_object, list_in, number_in, object_in, quote, text_in
from palaver.conform.frames import Frame

_FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call")
_TEXT_FIELDS = ("content", "reasoning_content", "refusal")


@dataclass
class _Call:
    id: str
    name: str
    arguments: str = ""


@dataclass
class ChatAnswer:
    """The answer that the chunks of a stream add up to."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    calls: list[_Call] = field(default_factory=list[_Call])
    finish: str | None = None
    error: object = None
    """The code of the error that ended it; True if it has none."""

    def has_content(self) -> bool:
        return any(self.texts.values()) or bool(self.calls)


class ChatChecker:
    def __init__(self, findings: Findings) -> None:
        self._add = findings.add
        self._first_chunk: dict[str, Any] = {}
        self._has_role = False
        self._finished = False
        self._usage_frame: Frame | None = None
        self._has_usage_key: bool | None = None
        """Whether the first chunk has the key `usage`."""
        self.answer = ChatAnswer()

    def feed(self, frame: Frame) -> None:
        value = frame.value
        if value is None:
            return
        if self._usage_frame is not None or self.answer.error:
            self._add("C5", frame, "chunk after usage" if self._usage_frame else "chunk after the error")
        if value.get("error") is not None:
            self._check_error(frame, value["error"])
            return
        self._check_identity(frame, value)
        choices = list_in(value, "choices")
        if choices is None:
            self._add("F3", frame, f"choices is {quote(value.get('choices'))}, not a list")
            return
        self._check_usage(frame, value, choices)
        if not choices:
            return
        choice = as_object(choices[0])
        if choice is None or len(choices) > 1 or number_in(choice, "index") != 0:
            self._add("C2", frame, f"expected one choice with index 0, got {quote(choices)}")
        if choice is not None:
            self._check_choice(frame, choice)

    def end(self, after_last: Frame) -> None:
        if not self._has_role and not self.answer.error:
            self._add("C3", after_last, "no choice has role: assistant")
        if not self._finished and not self.answer.error:
            self._add("C4", after_last, "the stream ends without finish_reason")

    def _check_error(self, frame: Frame, error: Any) -> None:
        error_object = as_object(error) or {}
        self.answer.error = error_object.get("code") or True
        if text_in(error_object, "message") is None or not error_object.keys() >= {"type", "code", "param"}:
            self._add("C11", frame, f"incomplete error: {quote(error)}")
        if self._finished:
            self._add("C5", frame, "error after finish_reason")

    def _check_identity(self, frame: Frame, value: dict[str, Any]) -> None:
        self._first_chunk = self._first_chunk or value
        if value.get("object") != "chat.completion.chunk" or not text_in(value, "id"):
            self._add("C1", frame, f"object is {quote(value.get('object'))}, id is {quote(value.get('id'))}")
        elif value["id"] != self._first_chunk.get("id"):
            self._add("C1", frame, f"id changed from {quote(self._first_chunk.get('id'))} to {quote(value['id'])}")
        for name in ("created", "model"):
            if value.get(name) is None or value[name] != self._first_chunk.get(name):
                first_value = quote(self._first_chunk.get(name))
                self._add("C1b", frame, f"{name} is {quote(value.get(name))}, but {first_value} in the first chunk")

    def _check_usage(self, frame: Frame, value: dict[str, Any], choices: list[Any]) -> None:
        usage = value.get("usage")
        if self._has_usage_key is None:
            self._has_usage_key = "usage" in value
        if usage is None:
            if not choices:
                self._add("C2", frame, "chunk has neither choices nor usage")
            elif ("usage" in value) != self._has_usage_key:
                self._add("C6", frame, "only some chunks have the key 'usage'")
            return
        counts = as_object(usage) or {}
        if any(number_in(counts, name) is None for name in ("prompt_tokens", "completion_tokens", "total_tokens")):
            self._add("F3", frame, f"invalid usage: {quote(usage)}")
        if choices or not self._finished:
            self._add("C6", frame, "usage in a chunk with a choice" if choices else "usage before finish_reason")
        if not choices:
            self._usage_frame = frame
            if not self._has_usage_key:
                self._add("C6", frame, "earlier chunks lack the key 'usage'")

    def _check_choice(self, frame: Frame, choice: dict[str, Any]) -> None:
        delta, finish = object_in(choice, "delta"), choice.get("finish_reason")
        if delta is None:
            self._add("F3", frame, f"delta is {quote(choice.get('delta'))}, not an object")
            return
        if choice.get("logprobs") is not None and object_in(choice, "logprobs") is None:
            self._add("F3", frame, f"logprobs is {quote(choice['logprobs'])}, not an object")
        if not choice.keys() >= {"logprobs", "finish_reason"}:
            self._add("C2b", frame, f"the choice has only the keys {quote(sorted(choice))}")
        if self._finished:
            self._add("C5", frame, "choice after finish_reason")
        is_first = self._check_role(frame, delta)
        has_content = self._feed_delta(frame, delta)
        if finish is None:
            if not has_content and not is_first:
                self._add("C10", frame, f"empty delta: {quote(delta)}")
            return
        self._finished = True
        self.answer.finish = finish if isinstance(finish, str) else None
        if finish not in _FINISH_REASONS:
            self._add("C4", frame, f"unknown finish_reason {quote(finish)}")
        elif finish == "tool_calls" and not self.answer.calls:
            self._add("C9", frame, "finish_reason is tool_calls, but there was no tool call")
        if has_content:
            self._add("C4b", frame, f"the delta is not empty: {quote(delta)}")

    def _check_role(self, frame: Frame, delta: dict[str, Any]) -> bool:
        """Check the role; return whether this is the first choice."""
        role = delta.get("role")
        if not self._has_role:
            self._has_role = True  # Reported once.
            if role != "assistant":
                self._add("C3", frame, f"the first choice has role {quote(role)}")
            return True
        if role is not None:
            self._add("C3b", frame, f"role {quote(role)} after the first choice")
        return False

    def _feed_delta(self, frame: Frame, delta: dict[str, Any]) -> bool:
        """Add a delta to the answer; return whether it has any content."""
        has_content = False
        for name in _TEXT_FIELDS:
            piece = delta.get(name)
            if piece is not None and not isinstance(piece, str):
                self._add("F3", frame, f"{name} is {quote(piece)}, not a string")
            elif piece:
                has_content = True
                self.answer.texts[name] = self.answer.texts.get(name, "") + piece
        for name in ("tool_calls", "annotations"):
            pieces = list_in(delta, name)
            if pieces is None and delta.get(name) is not None:
                self._add("F3", frame, f"{name} is {quote(delta[name])}, not a list")
            has_content = has_content or bool(pieces)
        for piece in list_in(delta, "tool_calls") or ():
            self._feed_call(frame, as_object(piece) or {})
        return has_content

    def _feed_call(self, frame: Frame, piece: dict[str, Any]) -> None:
        calls, index = self.answer.calls, number_in(piece, "index")
        function = object_in(piece, "function") or {}
        arguments = function.get("arguments", "")
        if index is None or not 0 <= index <= len(calls):
            self._add("C7", frame, f"tool call index is {quote(piece.get('index'))}, but {len(calls)} is next")
            return
        if not isinstance(arguments, str):
            self._add("F3", frame, f"arguments is {quote(arguments)}, not a string")
            return
        if index == len(calls):
            call_id, name = text_in(piece, "id"), text_in(function, "name")
            if not call_id or name is None or piece.get("type") != "function":
                self._add("C7", frame, f"the first piece of a tool call lacks id, type or name: {quote(piece)}")
            elif any(call.id == call_id for call in calls):
                self._add("C7", frame, f"duplicate tool call id {quote(call_id)}")
            calls.append(_Call(call_id or "", name or ""))
        else:
            if piece.get("id") is not None or function.get("name") is not None:
                self._add("C7", frame, f"a later piece of a tool call repeats id or name: {quote(piece)}")
            if index != len(calls) - 1:
                self._add("C8", frame, f"tool call {index} continues after tool call {len(calls) - 1} started")
        calls[index].arguments += arguments


def check_completion_body(findings: Findings, body: Any, streamed: ChatAnswer | None, *, same_run: bool) -> None:
    """Check a response that was not streamed; `streamed` is the answer of a stream, if there was one."""
    value = as_object(body) or {}
    if streamed is not None and streamed.error not in (None, "cancelled", "interrupted") and same_run:
        if object_in(value, "error") is None:
            findings.add("C14", None, f"the run failed, but the body has no error: {quote(body)}")
        return
    choices = list_in(value, "choices") or []
    choice = as_object(choices[0]) if len(choices) == 1 else None
    message = object_in(choice or {}, "message")
    if value.get("object") != "chat.completion" or not text_in(value, "id") or choice is None or message is None:
        findings.add("C13", None, f"not a chat.completion with one choice: {quote(body)}")
        return
    finish = choice.get("finish_reason")
    if message.get("role") != "assistant" or "content" not in message or finish not in _FINISH_REASONS:
        findings.add("C13", None, f"invalid choice: {quote(choice)}")
    if streamed is not None:
        _compare(findings, _parse_answer(message, finish), streamed, same_run=same_run)


def _parse_answer(message: dict[str, Any], finish: Any) -> ChatAnswer:
    pieces = [as_object(call) or {} for call in list_in(message, "tool_calls") or ()]
    functions = [object_in(piece, "function") or {} for piece in pieces]
    return ChatAnswer(
        texts={name: text for name in _TEXT_FIELDS if (text := text_in(message, name))},
        calls=[
            _Call(text_in(piece, "id") or "", text_in(function, "name") or "", text_in(function, "arguments") or "")
            for piece, function in zip(pieces, functions, strict=True)
        ],
        finish=finish,
    )


def _compare(findings: Findings, body: ChatAnswer, streamed: ChatAnswer, *, same_run: bool) -> None:
    if same_run:
        # Text before an interruption is in both forms; only the stream reports the end.
        names = ("texts", "calls") if streamed.error else ("texts", "calls", "finish")
        if differing := [name for name in names if getattr(body, name) != getattr(streamed, name)]:
            findings.add("C14", None, f"body and stream differ in {quote(differing)}")
    elif body.has_content() != streamed.has_content() and not streamed.error:
        findings.add("C14", None, "only one of body and stream has content")

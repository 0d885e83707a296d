"""Conversation scripts: conversations of several turns, with expectations for each turn.

    {"start": [messages], "turns": [{"user"} | {"assistant"} | {"simulate"}, …],
     "expect": {"goal"}, "tool_results": {name: …}, "stop": "never" | "on-failure"}

A value is a script by its shape. Its content, including `expect`, is validated when a revision is committed, so
that a run does not fail half-way. Whether expectations are met is decided in palaver.evaluation.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import msgspec

from palaver.core import dialects, json
from palaver.core.dialects.detection import detect_element
from palaver.core.messages import Message
from palaver.errors import InvalidMessages, InvalidValue

_ORDERS = ("strict", "in_order", "unordered", "subset", "superset")
_ARGUMENT_MATCHES = ("exact", "subset", "schema", "ignore")
_Object = dict[str, Any]


def check_expect(value: Any, pointer: str) -> _Object:
    """Validate the `expect` of a turn and return it. Raises InvalidValue."""
    return _check_fields(value, pointer, _EXPECT_CHECKS, "expect")


def check_goal(value: Any, pointer: str) -> _Object:
    """Validate the `expect` of a whole script: its goal."""
    return _check_fields(value, pointer, {"goal": _check_nonempty_text}, "expect")


def _check_fields(value: Any, pointer: str, checks: Mapping[str, Callable[[Any, str], None]], name: str) -> _Object:
    if value is None:
        return {}
    fields = _require_object(value, pointer, f"`{name}` must be an object.")
    for key, field in fields.items():
        field_pointer = f"{pointer}/{json.escape_pointer(key)}"
        check = checks.get(key)
        if check is None:
            raise InvalidValue(
                f"Unknown key {key[:80]!r} in `{name}`. Available: {', '.join(checks)}.", pointer=field_pointer
            )
        check(field, field_pointer)
    return fields


def _require_object(value: Any, pointer: str, message: str) -> _Object:
    if not isinstance(value, dict):
        raise InvalidValue(message, pointer=pointer)
    return cast("_Object", value)


def _check_text(value: Any, pointer: str) -> None:
    if not isinstance(value, str):
        _require_object(value, pointer, "`text` must be a string to find, or an object of checks.")
        _check_fields(value, pointer, _TEXT_CHECKS, "text")


def _check_texts(value: Any, pointer: str) -> None:
    texts = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidValue("Expected a string or a list of strings.", pointer=pointer)


def _check_patterns(value: Any, pointer: str) -> None:
    import regex

    _check_texts(value, pointer)
    for pattern in cast("list[str]", value) if isinstance(value, list) else [cast("str", value)]:
        try:
            regex.compile(pattern)
        except (regex.error, RecursionError, OverflowError) as error:
            raise InvalidValue(f"Invalid regular expression {pattern[:80]!r}: {error}.", pointer=pointer) from None


def _check_similar(value: Any, pointer: str) -> None:
    fields = _require_object(value, pointer, "`similar` must be an object {to, min?}.")
    if not isinstance(fields.get("to"), str) or not fields.keys() <= {"to", "min"}:
        raise InvalidValue(
            "`similar` must be {to, min?}: a string, and a minimum similarity from 0 to 1.", pointer=pointer
        )
    minimum = fields.get("min", 0.5)
    if not _is_number(minimum) or not 0 <= minimum <= 1:
        raise InvalidValue("`min` must be a number from 0 to 1.", pointer=f"{pointer}/min")


def _check_tools(value: Any, pointer: str) -> None:
    if value in ("none", "any"):
        return
    if not isinstance(value, list):
        raise InvalidValue('`tools` must be "none", "any", or a list of calls.', pointer=pointer)
    for index, call in enumerate(cast("list[Any]", value)):
        if isinstance(call, str) and call:
            continue
        call_pointer = f"{pointer}/{index}"
        message = "A call must be the name of a tool, or {name, arguments?, match?}."
        fields = _require_object(call, call_pointer, message)
        if not isinstance(fields.get("name"), str) or not fields.keys() <= {"name", "arguments", "match"}:
            raise InvalidValue(message, pointer=call_pointer)
        if "match" in fields:
            _one_of(_ARGUMENT_MATCHES)(fields["match"], f"{call_pointer}/match")


def _check_data(value: Any, pointer: str) -> None:
    fields = _require_object(value, pointer, "`data` must be {name, value?}.")
    if not isinstance(fields.get("name"), str) or not fields.keys() <= {"name", "value"}:
        raise InvalidValue("`data` must be {name, value?}.", pointer=pointer)


def _check_json(value: Any, pointer: str) -> None:
    _require_object(value, pointer, "`json` must be an object of paths and expected values.")


def _one_of(options: tuple[str, ...]) -> Callable[[Any, str], None]:
    def check(value: Any, pointer: str) -> None:
        if value not in options:
            raise InvalidValue(f"Expected one of {', '.join(options)}.", pointer=pointer)

    return check


def _check_nonempty_text(value: Any, pointer: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue("Expected a non-empty string.", pointer=pointer)


def _check_boolean(value: Any, pointer: str) -> None:
    if not isinstance(value, bool):
        raise InvalidValue("`refusal` must be true or false.", pointer=pointer)


def _check_limit(value: Any, pointer: str) -> None:
    if not _is_number(value) or value < 0:
        raise InvalidValue("Expected a number of at least 0.", pointer=pointer)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TEXT_CHECKS: Mapping[str, Callable[[Any, str], None]] = {
    "equals": _check_texts,
    "contains": _check_texts,
    "not_contains": _check_texts,
    "any_of": _check_texts,
    "matches": _check_patterns,
    "similar": _check_similar,
}
_EXPECT_CHECKS: Mapping[str, Callable[[Any, str], None]] = {
    "text": _check_text,
    "tools": _check_tools,
    "order": _one_of(_ORDERS),
    "json": _check_json,
    "data": _check_data,
    "finish": _check_nonempty_text,
    "refusal": _check_boolean,
    "max_seconds": _check_limit,
    "max_tokens": _check_limit,
    "judge": _check_nonempty_text,
}


def json_contains(whole: Any, part: Any) -> bool:
    """Whether `whole` has all of `part`: object keys at any depth, lists item by item; 1 equals 1.0, true is not 1."""
    if isinstance(part, dict):
        expected_fields = cast("dict[str, Any]", part)
        if not isinstance(whole, dict):
            return False
        fields = cast("dict[str, Any]", whole)
        return all(key in fields and json_contains(fields[key], value) for key, value in expected_fields.items())
    if isinstance(part, list):
        items = cast("list[Any]", part)
        if not isinstance(whole, list) or len(cast("list[Any]", whole)) != len(items):
            return False
        return all(json_contains(item, other) for item, other in zip(cast("list[Any]", whole), items, strict=True))
    return isinstance(whole, bool) == isinstance(part, bool) and whole == part


StopPolicy = Literal["never", "on-failure"]
_TURN_KEYS = frozenset(("user", "assistant", "simulate"))
_DIALECTS_WITH_PARTS = frozenset(("palaver", "gemini", "gen-ai"))
_OBJECT_TYPES = (dict,)


class CannedResult(msgspec.Struct, frozen=True):
    """A prepared answer of a client-side tool."""

    output: Any
    when: dict[str, Any] | None = None
    """Arguments that a call must have, possibly among others; None for any call."""


CannedResults = dict[str, tuple[CannedResult, ...]]
"""Canned results by tool name. The first match is the answer."""


class Simulate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    workflow: str
    goal: str
    persona: str | None = None
    max_turns: int = 8


class ScriptTurn(msgspec.Struct, frozen=True):
    """A turn has one of user, assistant (copied into the history) and simulate."""

    user: Message | None = None
    assistant: Message | None = None
    simulate: Simulate | None = None
    tool_results: CannedResults = {}
    expect: dict[str, Any] = {}


class Script(msgspec.Struct, frozen=True):
    start: tuple[Message, ...]
    turns: tuple[ScriptTurn, ...]
    expect: dict[str, Any] = {}
    stop: StopPolicy = "never"
    tool_results: CannedResults = {}


def is_script(value: object) -> bool:
    """Whether the value has the shape of a script: turns with one of user, assistant and (at the end) simulate."""
    turns: Any = cast("dict[str, Any]", value).get("turns") if isinstance(value, dict) else None
    if not isinstance(turns, list) or not turns:
        return False
    turn_list = cast("list[Any]", turns)
    return all(_is_turn(turn) for turn in turn_list) and not any("simulate" in turn for turn in turn_list[:-1])


def check_scripts(data: Mapping[str, Any], pointer: str = "") -> None:
    """Validate every cell of a row that has the shape of a script."""
    for name, value in data.items():
        if type(value) in _OBJECT_TYPES and "turns" in value and is_script(value):
            read_script(value, f"{pointer}/{json.escape_pointer(name)}")


def read_script(value: Any, pointer: str = "") -> Script:
    """Parse a script. Raises InvalidValue."""
    if not is_script(value):
        raise InvalidValue(
            "A script must have `turns`: a list of objects with `user` or `assistant`, or `simulate` in the last one.",
            pointer=pointer or None,
        )
    fields = cast("dict[str, Any]", value)
    stop = fields.get("stop", "never")
    if stop not in ("never", "on-failure"):
        raise InvalidValue('`stop` must be "never" or "on-failure".', pointer=f"{pointer}/stop")
    return Script(
        start=tuple(_read_messages(fields.get("start") or [], f"{pointer}/start")),
        turns=tuple(_read_turn(turn, f"{pointer}/turns/{index}") for index, turn in enumerate(fields["turns"])),
        expect=check_goal(fields.get("expect"), f"{pointer}/expect"),
        stop=stop,
        tool_results=_read_results(fields.get("tool_results"), f"{pointer}/tool_results"),
    )


def find_canned_result(script: Script, turn: ScriptTurn | None, name: str, arguments: Any) -> Any:
    """Return the canned answer to a call (arguments as a value or as JSON text); UNSET without one."""
    parsed = json.parse_or_text(arguments) if isinstance(arguments, str) else arguments
    for results in (turn.tool_results if turn else {}, script.tool_results):
        for result in results.get(name, ()):
            if result.when is None or json_contains(parsed, result.when):
                return result.output
    return msgspec.UNSET


def _is_turn(turn: Any) -> bool:
    if not isinstance(turn, dict):
        return False
    fields = cast("dict[str, Any]", turn)
    keys = _TURN_KEYS & fields.keys()
    if len(keys) != 1:
        return False
    if "simulate" in keys:
        return isinstance(fields["simulate"], dict)
    return isinstance(fields["user"] if "user" in keys else fields["assistant"], str | list | dict)


def _read_turn(turn: dict[str, Any], pointer: str) -> ScriptTurn:
    results = _read_results(turn.get("tool_results"), f"{pointer}/tool_results")
    expect = check_expect(turn.get("expect"), f"{pointer}/expect")
    if "user" in turn:
        return ScriptTurn(user=_read_message(turn["user"], "user", pointer), tool_results=results, expect=expect)
    if "assistant" in turn:
        if expect:
            raise InvalidValue("A fixed assistant turn can't have `expect`.", pointer=f"{pointer}/expect")
        return ScriptTurn(assistant=_read_message(turn["assistant"], "assistant", pointer), tool_results=results)
    try:
        simulate = msgspec.convert(turn["simulate"], Simulate)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"Invalid `simulate`: {error}.", pointer=f"{pointer}/simulate") from None
    if not 1 <= simulate.max_turns <= 100:
        raise InvalidValue("`max_turns` must be between 1 and 100.", pointer=f"{pointer}/simulate/max_turns")
    return ScriptTurn(simulate=simulate, tool_results=results, expect=expect)


def _read_message(value: Any, role: Literal["user", "assistant"], pointer: str) -> Message:
    """Read text, parts, or a whole message in any dialect."""
    message_pointer = f"{pointer}/{role}"
    if isinstance(value, str):
        return Message.user(value) if role == "user" else Message.assistant(value)
    if isinstance(value, list):
        message: dict[str, Any] = {"role": role, "parts": value}
        detected = detect_element(message)
        if detected is None or detected[0] not in _DIALECTS_WITH_PARTS:
            message = {"role": role, "content": value}
    else:
        message = {"role": role, **value} if "role" not in value and "type" not in value else value
    messages = _read_messages([message], message_pointer)
    if len(messages) != 1 or messages[0].role != role:
        raise InvalidValue(
            f"`{role}` must be a string, a list of parts, or one {role} message.", pointer=message_pointer
        )
    return messages[0]


def _read_messages(value: Any, pointer: str) -> list[Message]:
    try:
        return dialects.read(value, pointer=pointer)
    except InvalidMessages as error:
        raise InvalidValue(error.message, pointer=error.pointer) from None


def _read_results(value: Any, pointer: str) -> CannedResults:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidValue("`tool_results` must be an object that maps tool names to canned results.", pointer=pointer)
    by_tool = cast("dict[str, Any]", value)
    return {name: _read_canned(answer, f"{pointer}/{json.escape_pointer(name)}") for name, answer in by_tool.items()}


def _read_canned(answer: Any, pointer: str) -> tuple[CannedResult, ...]:
    answers = cast("list[Any]", answer) if isinstance(answer, list) else [answer]
    results: list[CannedResult] = []
    for index, item in enumerate(answers):
        answer_pointer = f"{pointer}/{index}" if isinstance(answer, list) else pointer
        keys = ("output", "when") if isinstance(answer, list) else ("output",)
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        if "output" not in fields or not fields.keys() <= {*keys}:
            raise InvalidValue(
                'A canned result must be {"output"}, or a list of {"when"?, "output"}.', pointer=answer_pointer
            )
        when = fields.get("when")
        if when is not None and not isinstance(when, dict):
            raise InvalidValue("`when` must be an object of arguments to match.", pointer=f"{answer_pointer}/when")
        results.append(CannedResult(fields["output"], cast("dict[str, Any] | None", when)))
    return tuple(results)

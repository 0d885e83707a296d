"""Conversation scripts: a case that is several turns, with what is expected of each (contract: test sets, A5).

    {"start": [messages], "turns": [{"user"} | {"assistant"} | {"simulate"}, …],
     "expect": {"goal"}, "tool_results": {name: …}, "stop": "never" | "on-failure"}

A script is known by its shape, so that nobody's other data is taken for one; what a script then says wrongly is an
error, with its place. The form of what is expected is checked in script_expectations.py; evaluation says if it is met.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from palaver.core import dialects, jsons
from palaver.core.elements import judge
from palaver.core.messages import Message
from palaver.errors import InvalidMessages, InvalidValue
from palaver.testsets.script_expectations import check_expect, check_goal
from palaver.testsets.subsets import holds

Stop = Literal["never", "on-failure"]
_TURNS = frozenset(("user", "assistant", "simulate"))
_BY_PARTS = frozenset(("palaver", "gemini", "gen-ai"))
_OBJECT = (dict,)


class Canned(msgspec.Struct, frozen=True):
    """What a tool of the client's answers in a script."""

    output: Any
    when: dict[str, Any] | None = None
    """The arguments that it answers to, or some of them; None for any."""


Results = dict[str, tuple[Canned, ...]]
"""By the tool's name; the first that fits is the answer."""


class Simulate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another workflow plays the user."""

    workflow: str
    goal: str
    persona: str | None = None
    max_turns: int = 8


class ScriptTurn(msgspec.Struct, frozen=True):
    """One of user, assistant (put into the history as it is) and simulate."""

    user: Message | None = None
    assistant: Message | None = None
    simulate: Simulate | None = None
    tool_results: Results = {}
    expect: dict[str, Any] = {}


class Script(msgspec.Struct, frozen=True):
    """A conversation to be played."""

    start: tuple[Message, ...]
    turns: tuple[ScriptTurn, ...]
    expect: dict[str, Any] = {}
    stop: Stop = "never"
    tool_results: Results = {}


def is_script(value: object) -> bool:
    """By its shape: an object whose turns are objects, each with one of user, assistant and (at the end) simulate."""
    turns: Any = cast("dict[str, Any]", value).get("turns") if isinstance(value, dict) else None
    if not isinstance(turns, list) or not turns:
        return False
    listed = cast("list[Any]", turns)
    return all(_is_turn(turn) for turn in listed) and not any("simulate" in turn for turn in listed[:-1])


def check_script(value: Any, pointer: str = "") -> None:
    """Is it a script that can be played? InvalidValue says what is not, and where."""
    read_script(value, pointer)


def check_scripts(data: Mapping[str, Any], pointer: str = "") -> None:
    """The same for every cell of a row that has the shape of one."""
    for name, value in data.items():
        if type(value) in _OBJECT and "turns" in value and is_script(value):
            read_script(value, f"{pointer}/{jsons.escaped(name)}")


def read_script(value: Any, pointer: str = "") -> Script:
    """A script as typed values; InvalidValue where it is none."""
    if not is_script(value):
        raise InvalidValue(
            "A script has `turns`: a list of objects, each with one of user, assistant and (at the end) simulate.",
            pointer=pointer or None,
        )
    fields = cast("dict[str, Any]", value)
    stop = fields.get("stop", "never")
    if stop not in ("never", "on-failure"):
        raise InvalidValue('`stop` is "never" or "on-failure".', pointer=f"{pointer}/stop")
    return Script(
        start=tuple(_messages(fields.get("start") or [], f"{pointer}/start")),
        turns=tuple(_turn(turn, f"{pointer}/turns/{index}") for index, turn in enumerate(fields["turns"])),
        expect=check_goal(fields.get("expect"), f"{pointer}/expect"),
        stop=stop,
        tool_results=_results(fields.get("tool_results"), f"{pointer}/tool_results"),
    )


def canned(script: Script, turn: ScriptTurn | None, name: str, arguments: Any) -> Any:
    """What a tool answers in that turn to these arguments (or their JSON text); UNSET where nothing is canned."""
    given = jsons.parsed(arguments) if isinstance(arguments, str) else arguments
    for results in (turn.tool_results if turn else {}, script.tool_results):
        for each in results.get(name, ()):
            if each.when is None or holds(given, each.when):
                return each.output
    return msgspec.UNSET


def _is_turn(turn: Any) -> bool:
    if not isinstance(turn, dict):
        return False
    fields = cast("dict[str, Any]", turn)
    named = _TURNS & fields.keys()
    if len(named) != 1:
        return False
    if "simulate" in named:
        return isinstance(fields["simulate"], dict)
    return isinstance(fields["user"] if "user" in named else fields["assistant"], str | list | dict)


def _turn(turn: dict[str, Any], pointer: str) -> ScriptTurn:
    results = _results(turn.get("tool_results"), f"{pointer}/tool_results")
    expect = check_expect(turn.get("expect"), f"{pointer}/expect")
    if "user" in turn:
        return ScriptTurn(user=_said(turn["user"], "user", pointer), tool_results=results, expect=expect)
    if "assistant" in turn:
        if expect:
            raise InvalidValue("A fixed answer has nothing to expect of it.", pointer=f"{pointer}/expect")
        return ScriptTurn(assistant=_said(turn["assistant"], "assistant", pointer), tool_results=results)
    try:
        simulate = msgspec.convert(turn["simulate"], Simulate)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"`simulate` is not right: {error}.", pointer=f"{pointer}/simulate") from None
    if not 1 <= simulate.max_turns <= 100:
        raise InvalidValue("`max_turns` is between 1 and 100.", pointer=f"{pointer}/simulate/max_turns")
    return ScriptTurn(simulate=simulate, tool_results=results, expect=expect)


def _said(said: Any, role: Literal["user", "assistant"], pointer: str) -> Message:
    """A text, parts, or a whole message in any dialect."""
    place = f"{pointer}/{role}"
    if isinstance(said, str):
        return Message.user(said) if role == "user" else Message.assistant(said)
    if isinstance(said, list):
        message: dict[str, Any] = {"role": role, "parts": said}
        verdict = judge(message)
        if verdict is None or verdict[0] not in _BY_PARTS:
            message = {"role": role, "content": said}
    else:
        message = {"role": role, **said} if "role" not in said and "type" not in said else said
    found = _messages([message], place)
    if len(found) != 1 or found[0].role != role:
        raise InvalidValue(f"`{role}` is a text, parts, or one message of the {role}'s.", pointer=place)
    return found[0]


def _messages(value: Any, pointer: str) -> list[Message]:
    try:
        return dialects.read(value, pointer=pointer)
    except InvalidMessages as error:
        raise InvalidValue(error.message, pointer=error.pointer) from None


def _results(value: Any, pointer: str) -> Results:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidValue("`tool_results` is an object: a tool's name, and what it answers.", pointer=pointer)
    named = cast("dict[str, Any]", value)
    return {name: _canned(answer, f"{pointer}/{jsons.escaped(name)}") for name, answer in named.items()}


def _canned(answer: Any, pointer: str) -> tuple[Canned, ...]:
    listed = cast("list[Any]", answer) if isinstance(answer, list) else [answer]
    found: list[Canned] = []
    for index, each in enumerate(listed):
        place = f"{pointer}/{index}" if isinstance(answer, list) else pointer
        known = ("output", "when") if isinstance(answer, list) else ("output",)
        fields = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        if "output" not in fields or not fields.keys() <= {*known}:
            raise InvalidValue('A canned result is {"output"}, or a list of {"when", "output"}.', pointer=place)
        when = fields.get("when")
        if when is not None and not isinstance(when, dict):
            raise InvalidValue("`when` is an object: some of the arguments.", pointer=f"{place}/when")
        found.append(Canned(fields["output"], cast("dict[str, Any] | None", when)))
    return tuple(found)

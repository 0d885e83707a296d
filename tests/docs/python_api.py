"""The generated part of docs/reference/python-api.md: the public names, from their signatures and docstrings.

A parameter or field without a description raises KeyError, and so does a public name that is in no group.
"""

import inspect
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

import palaver
from palaver import testing
from palaver.core.events import Event
from palaver.core.messages import Part
from palaver.discovery.workflow_loader import DeclaredEvaluator
from palaver.workflows.workflow import Limits, Options
from tests.docs.docstrings import Docstring, field_docstrings, parse_docstring

GROUPS = {
    "Declare workflows": ("chat", "workflow", "Parameter", "Context", "ModelOptions"),
    "Messages": ("Message", "Text", "Reasoning", "File", "ToolCall", "ToolResult", "Refusal", "Data", "Usage"),
    "Errors": ("PalaverError", "Failure"),
    "Serve and connect": ("app", "connect"),
    "Find conversations": ("extract_chat_messages", "read_conversation"),
    "Evaluators": ("evaluator", "Case", "Score", "Skip"),
    "Testing": ("client", "scripted", "echo"),
}
GUIDES = {
    "Declare workflows": "[Write a workflow](../guides/authoring.md) explains how to use these.",
    "Messages": "A message consists of parts: [Core data model](../concepts/core-data-model.md).",
    "Errors": "[Errors](errors.md) lists the codes of all errors, with their HTTP statuses.",
    "Serve and connect": "On the command line, [`palaver serve`](cli.md#palaver-serve) serves workflows. Remote"
    " services can also be [connected](connections.md) in `palaver.toml` or over HTTP.",
    "Find conversations": "[Find conversations in JSON](../concepts/extraction.md) has the rules.",
    "Evaluators": "[Evaluators](evaluators.md) lists the built-in ones, and what an evaluator may return.",
    "Testing": "For tests of your application, without a server and without a model.",
}
STRUCT_EXAMPLES = {
    "Message": """
        from palaver import Message, ToolCall

        question = Message.user("How is the weather in Oslo?")
        answer = Message.assistant("Let me look.", ToolCall(call_id="c1", name="weather"))
        result = Message.tool("c1", {"sky": "clear"})

        assert (question.role, question.text) == ("user", "How is the weather in Oslo?")
        assert answer.tool_calls[0].call_id == result.tool_results[0].call_id
        """,
    "Text": """
        from palaver import Message, Text

        assert Message.assistant("Hi") == Message(role="assistant", parts=(Text("Hi"),))
        """,
    "Reasoning": """
        from palaver import Message, Reasoning

        assert Message.assistant(Reasoning("6 times 7 …"), "42").text == "42"
        """,
    "File": """
        from palaver import File, Message

        photo = File(media_type="image/png", url="https://example.com/photo.png")
        assert Message.user("What is this?", photo).parts[1] == photo
        """,
    "ToolCall": """
        from palaver import ToolCall

        call = ToolCall(call_id="c1", name="weather", arguments='{"city": "Oslo"}')
        assert call.parsed == {"city": "Oslo"}
        """,
    "ToolResult": """
        from palaver import Message, ToolResult

        result = ToolResult(call_id="c1", output={"sky": "clear"})
        assert Message.tool("c1", {"sky": "clear"}).parts == (result,)
        """,
    "Refusal": """
        from palaver import Message, Refusal

        assert Message.assistant(Refusal("I can't help with that.")).text == ""
        """,
    "Data": """
        from palaver import Data, Message, chat


        @chat
        def plotter(messages: list[Message]):
            return Message.assistant("Here it is.", Data(name="chart", value={"points": [1, 4, 9]}))
        """,
    "Usage": """
        from palaver import Usage

        usage = Usage(input_tokens=12, output_tokens=9) + Usage(input_tokens=30, output_tokens=5)
        assert (usage.input_tokens, usage.total_tokens) == (42, 56)
        """,
}
"""Examples of message types. They can't be in the docstrings, which are descriptions in JSON Schemas."""

_NOT_CREATED = {"Context", "ModelOptions"}
"""Classes that users never create."""
_INTERNAL = {"close", "ending", "redirect_emit"}
"""Members of Context that only the engine uses."""
_ALIASES: tuple[tuple[Any, str], ...] = ((Part, "Part"), (Event, "Event"), (DeclaredEvaluator, "Evaluator"))
_HIDDEN_TYPES = (msgspec.UnsetType, Limits)
"""Types in unions that are no choice of users."""
_REQUIRED = inspect.Parameter.empty


class _Parameter(NamedTuple):
    name: str
    hint: Any
    default: Any
    text: str
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD


def page() -> str:
    """Return the generated part of the page."""
    names = {name for group in GROUPS.values() for name in group}
    assert names - {"client", "scripted", "echo"} == set(palaver.__all__)
    return "\n\n".join(
        "\n\n".join([f"## {group}", GUIDES[group], *map(_entry, members)]) for group, members in GROUPS.items()
    )


def _entry(name: str) -> str:
    module = "palaver.testing" if hasattr(testing, name) and name not in palaver.__all__ else "palaver"
    thing = getattr(testing if module == "palaver.testing" else palaver, name)
    function = inspect.unwrap(thing)
    docstring = parse_docstring(function.__doc__ or "")
    parameters = _parameters(function, docstring)
    signature = [] if name in _NOT_CREATED else [_signature(name, parameters)]
    example = docstring.example or textwrap.dedent(STRUCT_EXAMPLES.get(name, "")).strip()
    code = "\n\n".join([f"from {module} import {name}", *signature])
    raises = [
        textwrap.fill(f"- `{error}`: {text}", 128, subsequent_indent="  ", break_on_hyphens=False)
        for error, text in docstring.raises.items()
    ]
    blocks = [
        f"### {name}",
        "\n\n".join(textwrap.fill(text, 128, break_on_hyphens=False) for text in docstring.text.split("\n\n")),
        f"<!-- not run: a signature -->\n```python\n{code}\n```",
        _parameter_table(parameters, "field" if hasattr(function, "__struct_fields__") else "parameter"),
        _member_table(function, {parameter.name for parameter in parameters}) if isinstance(function, type) else "",
        "\n".join(["Raises:", "", *raises]) if raises else "",
        f"Example:\n\n```python\n{example}\n```" if example else "",
    ]
    return "\n\n".join(filter(None, blocks))


# Parameters


def _parameters(thing: Any, docstring: Docstring) -> list[_Parameter]:
    if isinstance(thing, type) and issubclass(thing, msgspec.Struct):
        texts = field_docstrings(thing)
        return [
            _Parameter(field.name, field.type, _default_of(field), texts[field.name])
            for field in msgspec.structs.fields(thing)
        ]
    function = thing.__init__ if isinstance(thing, type) else thing
    hints = typing.get_type_hints(function) if thing.__name__ not in ("client", *_NOT_CREATED) else {}
    found: list[_Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "ctx", "messages") or thing.__name__ in _NOT_CREATED:
            continue
        shown_name = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        shown_name += parameter.name
        hint = hints.get(parameter.name, parameter.annotation)
        if shown_name not in docstring.parameters and get_origin(hint) is typing.Unpack:
            found += _option_parameters(get_args(hint)[0], docstring)
        else:
            hint = Any if get_origin(hint) is typing.Unpack else hint
            text = docstring.parameters[shown_name]
            found.append(_Parameter(parameter.name, hint, parameter.default, text, parameter.kind))
    return found


def _option_parameters(options: type, docstring: Docstring) -> Iterator[_Parameter]:
    """Yield the keywords of a TypedDict, with the defaults of Options."""
    defaults: Mapping[str, Any] = {"flags": {}, **msgspec.structs.asdict(Options()), "limits": None}
    for name, hint in typing.get_type_hints(options).items():
        default = defaults.get(name, ...)
        yield _Parameter(name, hint, default, docstring.parameters[name], inspect.Parameter.KEYWORD_ONLY)


def _default_of(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return _REQUIRED if field.default is msgspec.NODEFAULT else field.default


def _parameter_table(parameters: list[_Parameter], title: str) -> str:
    if not parameters:
        return ""
    rows = [
        f"| `{_stars(parameter)}{parameter.name}` | {_type_words(parameter.hint)} |"
        f"{_default_words(parameter)} | {parameter.text} |"
        for parameter in parameters
    ]
    return "\n".join([f"| {title} | type | default | description |", "|---|---|---|---|", *rows])


def _default_words(parameter: _Parameter) -> str:
    if parameter.default is ... or parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        return ""
    return " *required*" if parameter.default is _REQUIRED else f" `{_value_text(parameter.default)}`"


def _member_table(cls: type, shown: set[str]) -> str:
    """Return the table of attributes, properties and methods that are not parameters."""
    attributes = {f"`{name}`": text for name, text in field_docstrings(cls).items() if name not in shown | _INTERNAL}
    for name, member in vars(cls).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if name.startswith("_") or name in _INTERNAL or not inspect.isfunction(function):
            continue
        assert function.__doc__, f"{cls.__name__}.{name} has no docstring"
        call = "" if isinstance(member, property) else f"({_call_text(function)})"
        attributes[f"`{name}{call}`"] = " ".join(inspect.cleandoc(function.__doc__).split())
    rows = [f"| {name} | {' '.join(text.split())} |" for name, text in attributes.items()]
    return "\n".join(["| member | description |", "|---|---|", *rows]) if rows else ""


def _call_text(function: Any) -> str:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return ", ".join(
        f"{'*' if parameter.kind is parameter.VAR_POSITIONAL else ''}{parameter.name}"
        + ("" if parameter.default is _REQUIRED else f"={_value_text(parameter.default)}")
        for parameter in parameters
    )


# Signatures


def _signature(name: str, parameters: list[_Parameter]) -> str:
    texts: list[str] = []
    kinds = [parameter.kind for parameter in parameters]
    for index, parameter in enumerate(parameters):
        is_first_keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.kind not in kinds[:index]
        if is_first_keyword and inspect.Parameter.VAR_POSITIONAL not in kinds[:index]:
            texts.append("*")
        default = "" if parameter.default is _REQUIRED else f" = {_value_text(parameter.default)}"
        texts.append(f"{_stars(parameter)}{parameter.name}: {_type_text(parameter.hint)}{default}")
        next_kind = kinds[index + 1] if index + 1 < len(kinds) else None
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and next_kind is not parameter.kind:
            texts.append("/")
    line = f"{name}({', '.join(texts)})"
    return line if len(line) <= 100 else "\n".join([f"{name}(", *(f"    {text}," for text in texts), ")"])


def _stars(parameter: _Parameter) -> str:
    return {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")


def _value_text(value: Any) -> str:
    if value is ... or value is msgspec.UNSET:
        return "…" if value is ... else "UNSET"
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}()"
    if isinstance(value, str):
        return f'"{value}"'
    return "frozenset()" if value == frozenset() and isinstance(value, frozenset) else repr(value)


def _type_words(hint: Any) -> str:
    """Return a type for a table: `str` or `None`."""
    *others, last = [f"`{text}`".replace(" | ", " or ") for text in _alternatives(hint)]
    return f"{', '.join(others)} or {last}" if others else last


def _type_text(hint: Any) -> str:
    return " | ".join(_alternatives(hint))


def _alternatives(hint: Any) -> list[str]:
    for alias, name in _ALIASES:
        if hint == alias:
            return [name]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        texts = [text for arg in args if arg not in _HIDDEN_TYPES for text in _alternatives(arg)]
        return list(dict.fromkeys(texts))
    if origin is Literal:
        return [_value_text(value) for value in args]
    if origin is typing.Annotated:
        return _alternatives(args[0])
    if origin is not None and origin.__name__ == "Callable":
        return ["Callable"]
    if origin is not None:
        return [f"{origin.__name__}[{', '.join('...' if arg is ... else _type_text(arg) for arg in args)}]"]
    if isinstance(hint, str):
        return [hint]
    return ["None"] if hint in (None, type(None)) else [getattr(hint, "__name__", str(hint))]

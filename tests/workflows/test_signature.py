"""Signatures: the role of each parameter, and declarations that are refused."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional

import msgspec
import pytest

from palaver.core.messages import Message
from palaver.errors import ChatWithoutMessages, DeclarationError, NotAWorkflow
from palaver.workflows.context import Context
from palaver.workflows.signature import Parameter, Signature, read_signature, takes_messages

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass
class Config:
    heat: float = 0.2


class Agent:
    def __call__(self, messages: list[Message], subject: str = "maths") -> str: ...

    def method(self, messages: list[Message], subject: str) -> str: ...

    @classmethod
    def of_class(cls, messages: list[Message]) -> str: ...

    @staticmethod
    def of_none(messages: list[Message]) -> str: ...


def signature(function: Any, *, is_chat: bool = True) -> Signature:
    return read_signature(function, is_chat=is_chat, name="w")


def argument_uses(function: Any, *, is_chat: bool = True) -> dict[str, str]:
    return {argument.name: argument.use for argument in signature(function, is_chat=is_chat).arguments}


# Roles of parameters


def test_each_parameter_has_a_role() -> None:
    def f(
        messages: list[Message],
        ctx: Any,
        subject: str,
        config: Config,
        top: Annotated[float, Parameter(description="h")] = 0.2,
        *rest: Any,
        words: int = 8,
        **more: Any,
    ) -> None: ...

    parsed = signature(f)

    assert {argument.name: argument.use for argument in parsed.arguments} == {
        "messages": "messages",
        "ctx": "context",
        "subject": "input",
        "config": "config",
        "top": "parameter",
        "words": "input",
    }
    assert parsed.accepts_extra
    assert list(parsed.settings) == ["top", "heat"]


def test_a_context_is_recognized_by_its_name_or_annotation() -> None:
    def f(a: Context, b: Context | None, c: "Context", ctx: int, d: int) -> None: ...

    assert argument_uses(f, is_chat=False) == {
        "a": "context",
        "b": "context",
        "c": "context",
        "ctx": "context",
        "d": "input",
    }


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[float, Parameter()],
        Annotated[float, Parameter],
        Optional[Annotated[float, Parameter()]],  # noqa: UP045
        Annotated[float | None, "note", Parameter()],
    ],
    ids=str,
)
def test_a_parameter_is_recognized_by_its_marker(annotation: Any) -> None:
    def f(heat: annotation = None) -> None: ...  # type: ignore[valid-type]

    assert argument_uses(f, is_chat=False) == {"heat": "parameter"}


@pytest.mark.parametrize("annotation", [Config, Config | None, Optional[Config], Annotated[Config, "note"]], ids=str)  # noqa: UP045
def test_a_config_is_recognized_by_its_name_and_model(annotation: Any) -> None:
    def f(config: annotation, settings: annotation) -> None: ...  # type: ignore[valid-type]

    assert argument_uses(f, is_chat=False) == {"config": "config", "settings": "input"}


def test_a_config_without_a_model_is_an_input() -> None:
    def f(config: dict[str, Any]) -> None: ...

    assert argument_uses(f, is_chat=False) == {"config": "input"}


# The history parameter


class UnannotatedAgent:
    def f(self, messages) -> None: ...


@pytest.mark.parametrize(
    ("annotation", "dialect"),
    [
        (list[Message], "palaver"),
        (Sequence[Message], "palaver"),
        (Iterable[Message], "palaver"),
        (tuple[Message, ...], "palaver"),
        (list[Message] | None, "palaver"),
        (Annotated[list[Message], "the conversation"], "palaver"),
        ("list[Message]", "palaver"),
        (list["Message"], "palaver"),
        (list[dict[str, Any]], "chat-completions"),
        (list, "chat-completions"),
        (Any, "chat-completions"),
        ("list[Unknown]", "chat-completions"),
    ],
    ids=str,
)
def test_the_annotation_of_the_history_selects_its_dialect(annotation: Any, dialect: str) -> None:
    def f(messages: annotation) -> None: ...  # type: ignore[valid-type]

    assert signature(f).dialect == dialect
    assert signature(UnannotatedAgent().f).dialect == "chat-completions"


def test_the_only_list_of_messages_receives_the_history() -> None:
    def f(subject: str, talk: list[Message]) -> None: ...

    assert argument_uses(f) == {"subject": "input", "talk": "messages"}


def test_a_parameter_named_messages_is_preferred_to_other_lists_of_messages() -> None:
    def f(talk: list[Message], messages: Any) -> None: ...

    assert argument_uses(f) == {"talk": "input", "messages": "messages"}


@pytest.mark.parametrize("is_chat", [True, False])
def test_takes_messages_detects_a_parameter_for_the_history(is_chat: bool) -> None:
    def none(text: str) -> None: ...

    def two(a: list[Message], b: list[Message]) -> None: ...

    def one(a: list[Message]) -> None: ...

    def named(messages: str) -> None: ...

    assert [takes_messages(function) for function in (none, two, one, named)] == [False, False, True, True]
    assert argument_uses(named, is_chat=is_chat) == {"messages": "messages" if is_chat else "input"}


def test_a_chat_without_a_history_parameter_is_rejected() -> None:
    def none(text: str) -> None: ...

    def two(a: list[Message], b: list[Message]) -> None: ...

    for function in (none, two):
        with pytest.raises(ChatWithoutMessages) as refused:
            signature(function)
        assert refused.value.code == "chat_without_messages"
        assert refused.value.message == (
            "w is declared as a chat but has no parameter for the message history. "
            "Add a parameter named messages, or use @workflow."
        )


# Callables


def test_objects_methods_and_partials_are_read_like_functions() -> None:
    agent = Agent()
    fixed = functools.partial(agent.method, subject="physics")

    assert argument_uses(agent) == {"messages": "messages", "subject": "input"}
    assert argument_uses(agent.method) == {"messages": "messages", "subject": "input"}
    assert argument_uses(Agent.of_class) == argument_uses(Agent.of_none) == {"messages": "messages"}
    assert [(a.name, a.default, a.required) for a in signature(fixed).by_use("input")] == [
        ("subject", "physics", False)
    ]
    assert {signature(f).dialect for f in (agent, agent.method, Agent.of_class, fixed)} == {"palaver"}


def test_a_decorated_function_is_read_as_the_one_it_wraps() -> None:
    def f(messages: list[Message], subject: str) -> None: ...

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert argument_uses(wrapper) == {"messages": "messages", "subject": "input"}
    assert signature(wrapper).dialect == "palaver"


def test_positional_only_parameters_are_recognized() -> None:
    def f(a: int, /, b: int, *, c: int) -> None: ...

    assert [argument.positional for argument in signature(f, is_chat=False).arguments] == [True, False, False]


def test_a_callable_without_a_signature_is_rejected() -> None:
    with pytest.raises(NotAWorkflow, match="Cannot read the signature of"):
        signature(max, is_chat=False)


# Parameters of the workflow


def test_two_parameters_with_the_same_name_are_rejected() -> None:
    def f(config: Config, heat: Annotated[float, Parameter()] = 0.2) -> None: ...

    with pytest.raises(DeclarationError, match=r"w has two parameters named 'heat'\. Rename one of them"):
        signature(f, is_chat=False)


class Unread(msgspec.Struct):
    price: "Decimal"


def test_a_config_whose_fields_cannot_be_read_is_rejected() -> None:
    def f(config: Unread) -> None: ...

    with pytest.raises(DeclarationError, match="Cannot read the fields of Unread: name 'Decimal' is not defined"):
        signature(f, is_chat=False)


# Descriptions


def test_descriptions_come_from_the_annotation_or_the_docstring() -> None:
    def f(
        a: Annotated[int, "from a text"],
        b: Annotated[int, Parameter(description="from the mark")],
        c: int,
        d: Annotated[int, Parameter(), "from a text beside the mark"],
        e: int,
        g: int,
    ) -> None:
        """Does it.

        Args:
            a: not this one
            c (int): from the docstring

            e: from the docstring too
        Returns:
            g: nothing
        """

    assert {argument.name: argument.description for argument in signature(f, is_chat=False).arguments} == {
        "a": "from a text",
        "b": "from the mark",
        "c": "from the docstring",
        "d": "from a text beside the mark",
        "e": "from the docstring too",
        "g": "",
    }

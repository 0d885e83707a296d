"""`@chat` and `@workflow`: options, derived descriptions, and declarations that are refused on import."""

import functools
import warnings
from typing import Any

import pytest

from palaver.core.messages import Message
from palaver.errors import DeclarationError
from palaver.workflows.decorators import TakesMessages, chat, workflow
from palaver.workflows.workflow import Limits, Options


def tutor(messages: list[Message], subject: str = "maths") -> str:
    """Explains a
    subject.

    At length.
    """
    return subject


def headline(text: str) -> str:
    return text


class Agent:
    """Not this one."""

    def __call__(self, messages: Any) -> str:
        """Answers."""
        return "Hi."


class Silent:
    def __call__(self, messages: Any) -> str:
        return "Hi."


# Descriptions


def test_a_declaration_takes_name_and_description_from_the_function() -> None:
    for declared in (chat(tutor), chat()(tutor)):
        described = declared.description
        assert (described.name, described.description, described.flags) == (
            "tutor",
            "Explains a subject.",
            {"is_chat": True},
        )


@pytest.mark.parametrize(
    ("function", "name", "description"),
    [
        (tutor, "tutor", "Explains a subject."),
        (functools.partial(tutor, subject="physics"), "tutor", "Explains a subject."),
        (Agent(), "Agent", "Answers."),
        (Agent().__call__, "__call__", "Answers."),
        (Silent(), "Silent", ""),
    ],
    ids=["function", "partial", "object", "method", "object that says nothing"],
)
def test_any_callable_has_a_name_and_a_description(function: Any, name: str, description: str) -> None:
    declared = chat(function).description

    assert (declared.name, declared.description) == (name, description)


def test_a_name_and_a_description_may_be_given() -> None:
    declared = chat(tutor, name="maths.tutor-1", description="").description

    assert (declared.name, declared.description) == ("maths.tutor-1", "")


def test_options_may_be_given_with_or_before_the_function() -> None:
    options: Any = {
        "name": "t",
        "description": "d",
        "flags": {"is_beta": True},
        "on_disconnect": "finish",
        "system": "drop",
        "limits": {"seconds": 2},
    }

    for declared in (chat(tutor, **options), chat(**options)(tutor)):
        assert declared.options == Options(on_disconnect="finish", system="drop", limits=Limits(seconds=2.0))
        assert declared.description.flags == {"is_beta": True, "is_chat": True}


@pytest.mark.parametrize(
    ("declared", "is_chat"),
    [
        (chat(tutor), True),
        (chat(tutor, flags={"is_chat": True}), True),
        (workflow(tutor, flags={"is_chat": True}), True),
        (workflow(headline), False),
        (workflow(headline, flags={"is_chat": False}), False),
    ],
    ids=["chat", "chat and flag", "workflow and flag", "workflow", "workflow and no flag"],
)
def test_the_decorator_or_the_flag_makes_a_chat(declared: Any, is_chat: bool) -> None:
    assert declared.description.is_chat is is_chat
    assert declared.description.flags == {"is_chat": is_chat}


def test_a_workflow_may_be_declared_again_under_another_name() -> None:
    first = chat(tutor)
    second = chat(first, name="second")

    assert second.description.name == "second"
    assert second.signature.dialect == "palaver"
    assert second([Message.user("x")], "physics") == "physics"


# The hint


def test_a_workflow_that_takes_messages_gets_a_hint_at_its_own_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        workflow(tutor)
        workflow(name="other")(tutor)

    assert [(str(warning.message), warning.category) for warning in caught] == [
        ("tutor takes messages; declare it with @chat to make it a chat", TakesMessages),
        ("other takes messages; declare it with @chat to make it a chat", TakesMessages),
    ]
    line = tutor.__code__.co_firstlineno
    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, line), (__file__, line)]


def test_no_hint_is_given_where_none_is_needed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chat(tutor)
        workflow(tutor, flags={"is_chat": True})
        workflow(headline)


# Rejected declarations


NO_HISTORY_MESSAGE = (
    "headline is declared as a chat but has no parameter for the message history. "
    "Add a parameter named messages, or use @workflow."
)
INVALID_NAME_MESSAGE = (
    "Workflow name '<lambda>' is not URL-safe. Use at most 64 characters: letters, digits, '_', '-' and '.'."
)

INVALID_DECLARATIONS: dict[str, tuple[Any, str, str]] = {
    "a chat without messages": (
        lambda: chat(headline),
        "chat_without_messages",
        NO_HISTORY_MESSAGE,
    ),
    "a flagged chat without messages": (
        lambda: workflow(headline, flags={"is_chat": True}),
        "chat_without_messages",
        NO_HISTORY_MESSAGE,
    ),
    "a chat that is none": (
        lambda: chat(tutor, flags={"is_chat": False}),
        "contradictory_flags",
        "tutor: @chat can't be combined with the flag is_chat=False. Use @workflow instead.",
    ),
    "a flag that is no boolean": (
        lambda: chat(tutor, flags={"is_beta": 1}),  # type: ignore[dict-item]
        "invalid_flag",
        "tutor: flag 'is_beta' must be True or False, not 1.",
    ),
    "a name that is none": (
        lambda: workflow(lambda: 1),
        "invalid_name",
        INVALID_NAME_MESSAGE,
    ),
    "an option that is a typo": (
        lambda: chat(tutor, limit={"seconds": 1}),  # type: ignore[call-overload]
        "invalid_option",
        (
            "tutor: unknown option limit. Available: name, description, flags, on_disconnect, system, limits, turns,"
            " idempotent, record, health, readme, redact."
        ),
    ),
    "health that cannot be asked": (
        lambda: chat(tutor, health="fine"),  # type: ignore[call-overload]
        "invalid_option",
        "tutor: health must be a function without arguments, not 'fine'.",
    ),
    "a readme that is no text": (
        lambda: chat(tutor, readme=7),  # type: ignore[call-overload]
        "invalid_option",
        "tutor: readme must be a string, not 7.",
    ),
    "an option outside its words": (
        lambda: chat(tutor, system="obey"),  # type: ignore[call-overload]
        "invalid_option",
        "tutor: system must be one of 'keep', 'drop', 'reject', not 'obey'.",
    ),
    "text": (
        lambda: chat("tutor"),
        "not_a_workflow",
        "'tutor' is not a workflow. Expected a function, coroutine function or generator function.",
    ),
    "a class": (
        lambda: chat(dict),
        "not_a_workflow",
        "<class 'dict'> is not a workflow. Expected a function, coroutine function or generator function.",
    ),
    "a builtin that does not say what it takes": (
        lambda: workflow(max),
        "not_a_workflow",
        "Cannot read the signature of <built-in function max>. Wrap it in a Python function.",
    ),
}


@pytest.mark.parametrize("case", INVALID_DECLARATIONS)
def test_an_invalid_declaration_is_rejected(case: str) -> None:
    declare, code, message = INVALID_DECLARATIONS[case]

    with pytest.raises(DeclarationError) as refused:
        declare()

    assert (refused.value.code, refused.value.message) == (code, message)


@pytest.mark.parametrize("flag", ["stream", "trim", "force", "resolve"])
def test_a_flag_of_a_single_call_is_rejected_on_a_workflow(flag: str) -> None:
    with pytest.raises(DeclarationError, match="applies to a single call") as refused:
        chat(tutor, flags={flag: True})

    assert refused.value.code == "invalid_flag"


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "a/b", "ä", "a" * 65, "a\n"])
def test_a_name_that_is_not_url_safe_is_rejected(name: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        chat(tutor, name=name)

    assert refused.value.code == "invalid_name"


def test_a_builtin_with_a_signature_is_a_workflow() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        declared = workflow(abs)

    assert (declared.description.name, declared.description.description) == ("abs", "")

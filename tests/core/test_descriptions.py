"""Workflow descriptions: names that are valid in URLs, and flags."""

from typing import Any

import pytest

from palaver.core.descriptions import Description, Schemas, check_flags, check_workflow_name
from palaver.errors import ContradictoryFlags, DeclarationError, InvalidFlag, InvalidName


@pytest.mark.parametrize("name", ["tutor", "a", "9", "_x", "my-tutor.v2", "x" * 64, "API"])
def test_a_url_safe_workflow_name_is_accepted(name: str) -> None:
    assert check_workflow_name(name) == name


@pytest.mark.parametrize("name", ["", "-x", ".x", "a b", "a/b", "é", "x" * 65, "tutor\n", "a:b", "../x"])
def test_a_workflow_name_that_is_not_url_safe_is_rejected(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        check_workflow_name(name)

    assert caught.value.code == "invalid_name"
    assert repr(name) in caught.value.message


@pytest.mark.parametrize(
    ("declared", "is_chat", "flags"),
    [
        ({}, True, {"is_chat": True}),
        ({}, None, {"is_chat": False}),
        ({"is_chat": True}, None, {"is_chat": True}),
        ({"is_chat": True}, True, {"is_chat": True}),
        ({"is_chat": False}, None, {"is_chat": False}),
        ({"is_evaluator": True, "beta": False}, True, {"is_evaluator": True, "beta": False, "is_chat": True}),
    ],
)
def test_flags_always_include_is_chat(declared: dict[str, Any], is_chat: bool | None, flags: dict[str, bool]) -> None:
    assert check_flags("tutor", declared, is_chat=is_chat) == flags


@pytest.mark.parametrize(
    ("declared", "is_chat", "error", "message"),
    [
        (
            {"is_chat": False},
            True,
            ContradictoryFlags,
            "tutor: @chat can't be combined with the flag is_chat=False. Use @workflow instead.",
        ),
        ({"beta": 1}, None, InvalidFlag, "tutor: flag 'beta' must be True or False, not 1."),
        ({"is_chat": "yes"}, None, InvalidFlag, "tutor: flag 'is_chat' must be True or False, not 'yes'."),
        (
            {"stream": True},
            None,
            InvalidFlag,
            "tutor: flag 'stream' applies to a single call and can't be set on a workflow.",
        ),
        (
            {"trim": True},
            None,
            InvalidFlag,
            "tutor: flag 'trim' applies to a single call and can't be set on a workflow.",
        ),
        (
            {"force": True},
            None,
            InvalidFlag,
            "tutor: flag 'force' applies to a single call and can't be set on a workflow.",
        ),
        (
            {"resolve": True},
            None,
            InvalidFlag,
            "tutor: flag 'resolve' applies to a single call and can't be set on a workflow.",
        ),
    ],
)
def test_invalid_or_contradictory_flags_are_rejected(
    declared: dict[str, Any], is_chat: bool | None, error: type[DeclarationError], message: str
) -> None:
    with pytest.raises(error) as caught:
        check_flags("tutor", declared, is_chat=is_chat)

    assert caught.value.message == message


def test_is_chat_of_a_description_follows_its_flags() -> None:
    assert Description(name="tutor", flags={"is_chat": True}).is_chat
    assert Description(name="headline", flags={"is_chat": False}) == Description(
        name="headline", description="", flags={"is_chat": False}, schemas=Schemas(inputs={}, parameters={}, outputs={})
    )

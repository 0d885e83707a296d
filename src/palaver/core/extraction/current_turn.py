"""The current question, and its answer, beside a history: `{"question": "…", "history": […]}`.

Chains and services take the question and the earlier messages under keys of one object. Together they are one
conversation: the history, the question as the last user turn and, except in an input column, the answer.
"""

from collections.abc import Sequence
from typing import NamedTuple

from palaver.core.dialects.detection import speaker_role, split_by_dialect
from palaver.core.extraction.locations import ANSWER_KEYS, HISTORY_KEYS, QUESTION_KEYS, Names, Prefer
from palaver.core.extraction.messages import read_found_messages
from palaver.core.json import Object, dict_get, is_list, is_object, is_text
from palaver.core.messages import Message, Role, Text

_QUESTION_ROLES = (None, "user", "human")
"""Roles of an object whose own text may be the question."""


class _Neighbour(NamedTuple):
    """Messages under another key of the object."""

    key: str
    messages: tuple[Message, ...]


def is_first_turn(key: str, holder: Object) -> bool:
    """Whether an empty list under `key` is the history before the first question, which is a text beside it."""
    is_history = key in HISTORY_KEYS and speaker_role(holder) is None
    return is_history and any(_text(dict_get(holder, name)) for name in QUESTION_KEYS)


def add_current_turn(
    messages: tuple[Message, ...], key: str, holder: Object, prefer: Prefer | None
) -> tuple[tuple[Message, ...], Names]:
    """Return the messages found under `key` with those that belong to them, and the keys of the latter."""
    if key in QUESTION_KEYS:
        history = _find_history(holder) if _is_question(messages) else None
        return (messages, ()) if history is None else ((*history.messages, *messages), (history.key,))
    question = _find_question(holder) if key in HISTORY_KEYS else None
    if question is None:
        return messages, ()
    answer = _first_turn(holder, ANSWER_KEYS, "assistant")
    whole_turn = question.messages if answer is None else (*question.messages, *answer.messages)
    if _ends_with(messages, whole_turn):  # A memory that was updated before it was recorded.
        return messages, (question.key,)
    if not _ends_with(messages, question.messages):
        messages = (*messages, *question.messages)
    if answer is None or prefer == "input":
        return messages, (question.key,)
    return (*messages, *answer.messages), (question.key, answer.key)


def _find_question(holder: Object) -> _Neighbour | None:
    return _first_turn(holder, QUESTION_KEYS, "user") if speaker_role(holder) in _QUESTION_ROLES else None


def _first_turn(holder: Object, keys: Names, role: Role) -> _Neighbour | None:
    """Return the first text, or messages of the role, under one of the keys."""
    for key in keys:
        value = dict_get(holder, key)
        if text := _text(value):
            return _Neighbour(key, (Message(role, (Text(text),)),))
        if (messages := _read(value)) and all(message.role == role for message in messages):
            return _Neighbour(key, messages)
    return None


def _text(value: object) -> str:
    """Return a text that is not blank, else an empty one."""
    text = str.__str__(value) if is_text(value) else ""
    return "" if text.isspace() else text


def _find_history(holder: Object) -> _Neighbour | None:
    for key in HISTORY_KEYS:
        if messages := _read(dict_get(holder, key)):
            return _Neighbour(key, messages)
    return None


def _read(value: object) -> tuple[Message, ...]:
    segments = split_by_dialect(value) if is_list(value) or is_object(value) else None
    return () if segments is None else tuple(read_found_messages(segments))


def _is_question(messages: Sequence[Message]) -> bool:
    return all(message.role == "user" for message in messages)


def _ends_with(messages: Sequence[Message], turn: Sequence[Message]) -> bool:
    ending = messages[-len(turn) :]
    return [(one.role, one.text.strip()) for one in ending] == [(one.role, one.text.strip()) for one in turn]

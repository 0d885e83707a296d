"""Validation of a history sent by a client: instructions, tool results, file URLs and limits."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.history_validation import HistoryLimits, SystemPolicy, validate_history
from palaver.core.messages import File, Message, Part, Text, ToolCall, ToolResult
from palaver.errors import RequestError
from tests.core.strategies import messages

HELLO = Message.user("Hello")
RULES = Message.system("Be brief.")
DEVELOPER_RULES = Message(role="developer", parts=(Text(text="Be kind."),), metadata={"origin": "server", "team": "a"})


def call(*ids: str) -> Message:
    return Message.assistant(*[ToolCall(call_id=one, name="now") for one in ids])


def tool_results(*ids: str) -> Message:
    return Message(role="tool", parts=tuple(ToolResult(call_id=one, output="12:00") for one in ids))


def picture(url: str) -> File:
    return File(media_type="image/png", url=url)


def test_a_valid_history_is_returned_unchanged() -> None:
    history = (HELLO, call("a", "b"), tool_results("b"), tool_results("a"), Message.assistant("Noon."))

    assert validate_history(history) == (history, [])


@pytest.mark.parametrize(
    ("system", "expected", "warnings"),
    [
        (
            "keep",
            (
                Message(role="system", parts=RULES.parts, metadata={"origin": "client"}),
                Message(role="developer", parts=DEVELOPER_RULES.parts, metadata={"origin": "client", "team": "a"}),
                HELLO,
            ),
            [],
        ),
        (
            "drop",
            (HELLO,),
            ["dropped the client's system message 0", "dropped the client's developer message 1"],
        ),
    ],
)
def test_a_clients_instructions_are_marked_or_dropped(
    system: SystemPolicy, expected: tuple[Message, ...], warnings: list[str]
) -> None:
    assert validate_history([RULES, DEVELOPER_RULES, HELLO], system=system) == (expected, warnings)


UNANSWERED_CALLS: dict[str, tuple[Sequence[Message], tuple[Message, ...], list[str]]] = {
    "a trailing call": ([HELLO, call("a")], (HELLO,), ["dropped calls without a result: a"]),
    "a call beside words": (
        [Message.assistant("Wait.", ToolCall(call_id="a", name="now"))],
        (Message.assistant("Wait."),),
        ["dropped calls without a result: a"],
    ),
    "one of several": (
        [call("a", "b", "c"), tool_results("b")],
        (call("b"), tool_results("b")),
        ["dropped calls without a result: a, c"],
    ),
    "an id that came again, answered": ([call("a"), tool_results("a")] * 2, (call("a"), tool_results("a")) * 2, []),
    "an id that came again, unanswered": (
        [call("a"), tool_results("a"), call("a")],
        (call("a"), tool_results("a")),
        ["dropped calls without a result: a"],
    ),
    "an id that came again too soon": (
        [call("a"), call("a"), tool_results("a")],
        (call("a"), tool_results("a")),
        ["dropped calls without a result: a"],
    ),
}


@pytest.mark.parametrize(("sent", "expected", "warnings"), UNANSWERED_CALLS.values(), ids=UNANSWERED_CALLS)
def test_calls_without_a_result_are_dropped_with_a_warning(
    sent: Sequence[Message], expected: tuple[Message, ...], warnings: list[str]
) -> None:
    assert validate_history(sent) == (expected, warnings)


REJECTED_HISTORIES: dict[str, tuple[Sequence[Message], SystemPolicy, tuple[str, str, str | None]]] = {
    "a system message that the author refuses": (
        [HELLO, RULES],
        "reject",
        (
            "invalid_value",
            "Message 1 has the role 'system', which this workflow does not accept from clients.",
            "/messages/1",
        ),
    ),
    "a developer message that the author refuses": (
        [DEVELOPER_RULES],
        "reject",
        (
            "invalid_value",
            "Message 0 has the role 'developer', which this workflow does not accept from clients.",
            "/messages/0",
        ),
    ),
    "a result for no call": (
        [HELLO, tool_results("a")],
        "keep",
        (
            "unknown_call",
            "Message 1 has a result for call 'a', which does not appear in an earlier message.",
            "/messages/1",
        ),
    ),
    "a result before its call": (
        [tool_results("a"), call("a")],
        "keep",
        (
            "unknown_call",
            "Message 0 has a result for call 'a', which does not appear in an earlier message.",
            "/messages/0",
        ),
    ),
    "a result before its call in one message": (
        [Message.assistant(ToolResult(call_id="a"), ToolCall(call_id="a", name="now"))],
        "keep",
        (
            "unknown_call",
            "Message 0 has a result for call 'a', which does not appear in an earlier message.",
            "/messages/0",
        ),
    ),
    "a second result": (
        [call("a"), tool_results("a"), tool_results("a")],
        "keep",
        ("unknown_call", "Message 2 has a result for call 'a', which already has one.", "/messages/2"),
    ),
    "a result whose call was the system's, which is dropped": (
        [Message.system(ToolCall(call_id="a", name="now")), tool_results("a")],
        "drop",
        (
            "unknown_call",
            "Message 1 has a result for call 'a', which does not appear in an earlier message.",
            "/messages/1",
        ),
    ),
    "an id that is too long": (
        [Message(role="user", id="m" * 65, parts=())],
        "keep",
        ("invalid_value", "An id in message 0 is longer than 64 characters.", "/messages/0"),
    ),
    "a call id that is too long": (
        [call("c" * 65)],
        "keep",
        ("invalid_value", "An id in message 0 is longer than 64 characters.", "/messages/0"),
    ),
    "a result's id that is too long": (
        [tool_results("c" * 65)],
        "keep",
        ("invalid_value", "An id in message 0 is longer than 64 characters.", "/messages/0"),
    ),
    "a file id that is too long": (
        [Message.user(File(media_type="image/png", file_id="f" * 65))],
        "keep",
        ("invalid_value", "An id in message 0 is longer than 64 characters.", "/messages/0"),
    ),
    "too many messages": (
        [HELLO] * 2001,
        "keep",
        ("invalid_value", "Too many messages: 2,001 (limit: 2,000).", "/messages"),
    ),
    "too many parts": (
        [HELLO, Message.user(*["a"] * 501)],
        "keep",
        ("invalid_value", "Message 1 has too many parts: 501 (limit: 500).", "/messages/1"),
    ),
    "too many files": (
        [Message.user(*[picture("https://host/")] * 11)] * 2,
        "keep",
        ("too_large", "Too many files: 22 (limit: 20).", "/messages"),
    ),
}


@pytest.mark.parametrize(("sent", "system", "expected"), REJECTED_HISTORIES.values(), ids=REJECTED_HISTORIES)
def test_an_invalid_history_is_rejected(
    sent: Sequence[Message], system: SystemPolicy, expected: tuple[str, str, str | None]
) -> None:
    with pytest.raises(RequestError) as caught:
        validate_history(sent, system=system)

    assert (caught.value.code, caught.value.message, caught.value.pointer) == expected


@pytest.mark.parametrize("url", ["https://host/a.png", "HTTP://host/", "data:image/png;base64,AAAA"])
def test_files_at_https_http_and_data_urls_are_accepted(url: str) -> None:
    assert validate_history([Message.user(picture(url))]) == ((Message.user(picture(url)),), [])


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/", "javascript:alert(1)", " https://host/", "//host/a.png", "a.png", ""]
)
def test_files_at_any_other_url_are_rejected(url: str) -> None:
    with pytest.raises(RequestError) as caught:
        validate_history([HELLO, Message.user("Look:", picture(url))])

    assert (caught.value.code, caught.value.message, caught.value.pointer) == (
        "invalid_value",
        "Message 1 has a file with an unsupported URL. Use an https, http or data URL.",
        "/messages/1",
    )


@pytest.mark.parametrize(
    ("limits", "parts", "message"),
    [
        (HistoryLimits(messages=0), ["a"], "Too many messages: 1 (limit: 0)."),
        (HistoryLimits(parts=1), ["a", "b"], "Message 0 has too many parts: 2 (limit: 1)."),
        (HistoryLimits(files=0), [picture("https://host/")], "Too many files: 1 (limit: 0)."),
        (
            HistoryLimits(file=5),
            [File(media_type="text/plain", data="AAAAAAAA")],
            "A file in message 0 exceeds the limit of 5 bytes.",
        ),
    ],
)
def test_every_limit_can_be_set(limits: HistoryLimits, parts: list[str | Part], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        validate_history([Message.user(*parts)], limits=limits)

    assert caught.value.message == message


@given(st.lists(messages, max_size=5))
def test_validating_a_validated_history_changes_nothing(sent: list[Message]) -> None:
    try:
        stored, _ = validate_history(sent)
    except RequestError:
        return
    assert validate_history(stored) == (stored, [])

"""Messages: constructors, text, calls and results, and encoding."""

import msgspec
from hypothesis import given

from palaver.core.messages import ROLES, File, Message, Reasoning, Text, ToolCall, ToolResult
from tests.core.strategies import messages

PICTURE = File(media_type="image/png", url="https://host/a.png")


def test_constructors_set_role_and_parts() -> None:
    assert Message.user("What?", PICTURE) == Message(role="user", parts=(Text(text="What?"), PICTURE))
    assert Message.assistant("That.") == Message(role="assistant", parts=(Text(text="That."),))
    assert Message.assistant() == Message(role="assistant", parts=())
    assert Message.system("Be brief.") == Message(role="system", parts=(Text(text="Be brief."),))
    assert Message.tool("c", 12) == Message(role="tool", parts=(ToolResult(call_id="c", output=12),))
    assert Message.tool("c", "no", is_error=True) == Message(
        role="tool", parts=(ToolResult(call_id="c", output="no", is_error=True),)
    )


def test_text_joins_only_the_text_parts_without_a_separator() -> None:
    message = Message.assistant(Reasoning(text="hm"), "Hel", PICTURE, "lo")

    assert message.text == "Hello"


def test_calls_and_results_are_listed_in_order() -> None:
    first, second = ToolCall(call_id="a", name="now"), ToolCall(call_id="b", name="now")
    answer = ToolResult(call_id="a", output=1)

    message = Message.assistant(first, "and", second, answer)

    assert (message.tool_calls, message.tool_results) == ([first, second], [answer])


def test_parts_may_be_a_list_or_a_tuple() -> None:
    assert Message(role="user", parts=[Text(text="a")]) == Message.user("a")  # type: ignore[arg-type]


def test_there_are_five_roles() -> None:
    assert sorted(ROLES) == ["assistant", "developer", "system", "tool", "user"]


@given(messages)
def test_every_message_round_trips_through_json(message: Message) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message

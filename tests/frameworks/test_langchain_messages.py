"""Palaver messages converted to LangChain's, for graphs, models and functions that take `list[BaseMessage]`."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from palaver import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult, chat
from palaver.core.messages import Role
from palaver.frameworks.langchain.messages import written
from tests.engine.run_factory import QUESTION, reply, reply_of, run_to_end


def make_message(role: Role, *parts: Any, **fields: Any) -> Message:
    return Message(
        role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts), **fields
    )


def tool_call_dicts(*calls: tuple[str, str, Any]) -> Any:
    return [{"type": "tool_call", "id": call_id, "name": name, "args": arguments} for call_id, name, arguments in calls]


PNG = File(media_type="image/png", data="iVBO")

CONVERSIONS: dict[str, tuple[list[Message], list[BaseMessage]]] = {
    "system": ([Message.system("Be kind.")], [SystemMessage("Be kind.")]),
    "developer": (
        [make_message("developer", "Be kind.")],
        [SystemMessage("Be kind.", additional_kwargs={"__openai_role__": "developer"})],
    ),
    "user": ([make_message("user", "a", "b", id="u1", name="Ada")], [HumanMessage("ab", id="u1", name="Ada")]),
    "a user who says nothing": ([make_message("user"), Message.user("")], [HumanMessage(""), HumanMessage("")]),
    "a user with files": (
        [
            Message.user(
                "See:",
                PNG,
                File(media_type="audio/wav", url="https://a/b"),
                File(media_type="application/pdf", file_id="f1", filename="a.pdf"),
            )
        ],
        [
            HumanMessage(
                [
                    {"type": "text", "text": "See:"},
                    {"type": "image", "mime_type": "image/png", "base64": "iVBO"},
                    {"type": "audio", "mime_type": "audio/wav", "url": "https://a/b"},
                    {
                        "type": "file",
                        "mime_type": "application/pdf",
                        "file_id": "f1",
                        "extras": {"filename": "a.pdf"},
                    },
                ]
            )
        ],
    ),
    "an approval": ([Message.user(Data(name="approval-response", value={"id": "c1", "approve": True}))], []),
    "assistant": (
        [
            make_message(
                "assistant", Reasoning(text="Hm."), "a", Refusal(text="No."), Data(name="d"), id="m1", name="bot"
            )
        ],
        [AIMessage("aNo.", id="m1", name="bot")],
    ),
    "an assistant of whom nothing is left": (
        [make_message("assistant", Reasoning(text="Hm.")), Message.assistant("")],
        [],
    ),
    "calls and results": (
        [
            Message.assistant(
                "So:",
                ToolCall(call_id="c1", name="f", arguments='{"a":1}'),
                ToolCall(call_id="c2", name="g"),
                ToolCall(call_id="c3", name="h", arguments="{bad"),
                ToolCall(call_id="c4", name="h", arguments="[1]"),
            ),
            make_message("tool", ToolResult(call_id="c1", output={"b": "ä"}), id="t1"),
            make_message(
                "tool", ToolResult(call_id="c2", output="no", is_error=True), ToolResult(call_id="c3"), id="t2"
            ),
        ],
        [
            AIMessage(
                "So:",
                tool_calls=tool_call_dicts(("c1", "f", {"a": 1}), ("c2", "g", {})),
                invalid_tool_calls=[
                    {"type": "invalid_tool_call", "id": "c3", "name": "h", "args": "{bad", "error": None},
                    {"type": "invalid_tool_call", "id": "c4", "name": "h", "args": "[1]", "error": None},
                ],
            ),
            ToolMessage('{"b":"ä"}', tool_call_id="c1", name="f", id="t1"),
            ToolMessage("no", tool_call_id="c2", name="g", status="error"),
            ToolMessage("null", tool_call_id="c3", name="h"),
        ],
    ),
    "a result without its call": ([Message.tool("c9", "x")], [ToolMessage("x", tool_call_id="c9")]),
}


@pytest.mark.parametrize("case", CONVERSIONS)
def test_palaver_messages_are_converted_to_langchain_messages(case: str) -> None:
    ours, theirs = CONVERSIONS[case]

    assert written(ours) == theirs


@pytest.mark.parametrize(
    "annotation",
    [list[BaseMessage], list[AnyMessage], list[HumanMessage | AIMessage] | None],
    ids=["base", "any", "some"],
)
async def test_a_function_annotated_with_langchain_messages_receives_them(annotation: Any) -> None:
    def answer(messages: Any) -> str:
        return repr(messages)

    answer.__annotations__["messages"] = annotation
    expected = [HumanMessage("Well?")]

    assert reply_of(await run_to_end(chat(answer), QUESTION)) == reply(Message.assistant(repr(expected)))


async def test_the_history_parameter_may_have_another_name() -> None:
    def answer(history: list[BaseMessage], loud: bool = False) -> str:
        return history[-1].text.upper() if loud else history[-1].text

    assert reply_of(await run_to_end(chat(answer), QUESTION, inputs={"loud": True})) == reply(
        Message.assistant("WELL?")
    )

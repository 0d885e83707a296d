"""The prompt of a judge: all messages and tool calls of a case with their roles, without reasoning."""

from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.evaluation.case import Case, CaseToolCall, Turn
from palaver.evaluation.judge_prompt import PromptMarks, describe_calls, format_conversation, format_value
from tests.evaluation.evaluator_helpers import answer


def conversation_lines(case: Case) -> list[str]:
    return format_conversation(case, PromptMarks(lambda _: "#")).split("\n")


def test_every_part_except_reasoning_is_in_the_conversation() -> None:
    assistant_message = Message(
        role="assistant",
        parts=(
            Reasoning("They must not know."),
            Text("One moment."),
            ToolCall(call_id="c1", name="find", arguments='{"q": "x"}'),
            Data("chart", {"y": [1, None]}),
            File("image/png", filename="a.png"),
            File("audio/wav"),
            Refusal("I will not."),
        ),
    )
    tool_message = Message(
        role="tool", parts=(ToolResult("c1", {"hits": 2}), ToolResult("c1", "It is away.", is_error=True))
    )
    question = Message.user("Find x.")

    assert conversation_lines(
        Case(history=(question,), turns=(Turn(user=question, messages=(assistant_message, tool_message)),))
    ) == [
        "<<<user #>>>",
        "Find x.",
        "<<<turn 0 #>>>",
        "<<<assistant #>>>",
        "One moment.",
        '(calls the tool find) {"q": "x"}',
        '(returns the data chart) {"y":[1,null]}',
        "(returns a file) a.png image/png",
        "(returns a file)  audio/wav",
        "(refuses) I will not.",
        "<<<tool #>>>",
        '(the tool returned) {"hits":2}',
        "(the tool failed) It is away.",
    ]


def test_every_turn_shows_its_user_message_even_if_it_was_not_reached() -> None:
    turns = (
        Turn(user=Message.user("One?"), messages=(Message.assistant("1"),)),
        Turn(user=Message.user("Two?"), reached=False),
    )

    assert conversation_lines(Case(history=(Message.system("Count."),), turns=turns)) == [
        "<<<system #>>>",
        "Count.",
        "<<<turn 0 #>>>",
        "<<<user #>>>",
        "One?",
        "<<<assistant #>>>",
        "1",
        "<<<turn 1 #>>>",
        "(This turn was not reached.)",
        "<<<user #>>>",
        "Two?",
    ]


def test_the_value_of_a_workflow_is_in_the_conversation() -> None:
    assert conversation_lines(answer({"city": "Oslo"}, is_chat=False)) == [
        "<<<turn 0 #>>>",
        "<<<value #>>>",
        '{"city":"Oslo"}',
    ]
    assert conversation_lines(answer(None, is_chat=False)) == ["<<<turn 0 #>>>", "<<<value #>>>", "null"]


def test_described_tool_calls_have_arguments_and_results() -> None:
    calls = [
        CaseToolCall(call_id="c1", name="find", arguments='{"q": 1}', parsed={"q": 1}, result=None),
        CaseToolCall(call_id="c2", name="find", arguments="{q", turn=1),
        CaseToolCall(call_id="c3", name="find", parsed={}, result="away", is_error=True, turn=2),
    ]

    assert describe_calls(calls) == [
        {"turn": 0, "name": "find", "arguments": {"q": 1}, "result": None},
        {"turn": 1, "name": "find", "arguments": "{q"},
        {"turn": 2, "name": "find", "arguments": {}, "result": "away", "is_error": True},
    ]


def test_format_value_returns_strings_unquoted_and_anything_else_as_json() -> None:
    assert [format_value("a\ud800"), format_value(["a", 1.5]), format_value(True)] == ["a\ufffd", '["a",1.5]', "true"]

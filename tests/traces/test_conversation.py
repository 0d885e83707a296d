"""Traces as conversations: one trace, a session with repetitions and branches, and continuing it."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palaver.core.messages import Data, File, Message, Reasoning, Text, ToolCall, ToolResult
from palaver.traces.conversation import (
    MessageStep,
    Origin,
    Tab,
    ThreadDraft,
    ToolStep,
    Turn,
    build_live,
    build_tabs,
    build_turn,
)
from palaver.traces.model import Span, Tool, ToolDefinition

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
USER, BOT = Message.user, Message.assistant
BE_KIND = Message.system("Be kind.")


def span(name: str = "root", **fields: Any) -> Span:
    return Span(trace_id="t", span_id=name, name=name, start=NOW, **fields)


def turn(number: int, messages_in: list[Message], *messages_out: Message, tools: tuple[ToolStep, ...] = ()) -> Turn:
    return Turn(
        trace_id=f"t{number}",
        span_id=f"s{number}",
        messages_in=tuple(messages_in),
        messages_out=messages_out,
        tools=tools,
    )


def summarize_tabs(tabs: list[Tab]) -> list[Any]:
    """Return the origin and the texts of each tab."""
    return [
        (tab.origin, [step.message.text if isinstance(step, MessageStep) else step.name for step in tab.steps])
        for tab in tabs
    ]


# One trace


def test_the_turn_of_a_trace_has_the_messages_of_its_root() -> None:
    root = span(messages_in=(USER("Hi"),), messages_out=(BOT("Hello."),))
    call = span("call", messages_in=(USER("other"),), messages_out=(BOT("other"),))

    assert build_turn(root, [call]) == Turn(
        trace_id="t", span_id="root", messages_in=(USER("Hi"),), messages_out=(BOT("Hello."),)
    )


def test_the_last_call_with_input_and_output_is_used_if_the_root_lacks_one() -> None:
    half = span("half", messages_in=(USER("half"),))
    call = span("call", messages_in=(USER("Hi"),), messages_out=(BOT("Hello."),))

    result = build_turn(span(messages_in=(USER("Hi"),)), [half, call, span("earlier")])

    assert (result.span_id, result.messages_in, result.messages_out) == ("call", (USER("Hi"),), (BOT("Hello."),))


CALL = BOT(ToolCall("c1", "weather", "{}"))
STEPS = (CALL, Message.tool("c1", "4 °C"))


def test_a_call_with_the_steps_replaces_a_root_with_only_question_and_answer() -> None:
    question, reply = (BE_KIND, USER("Weather?")), BOT("4 °C.")
    call = span("call", messages_in=(*question, *STEPS), messages_out=(reply,))

    reply_with_call = BOT("4 °C.", ToolCall("c1", "weather", "{}"))
    for answer in ((reply,), (reply_with_call,), (reply_with_call, STEPS[1])):
        result = build_turn(span(messages_in=question, messages_out=answer), [call])

        assert (result.span_id, result.messages_in, result.messages_out) == ("call", (*question, *STEPS), (reply,))


def test_the_root_of_a_palaver_run_is_used_even_if_a_call_has_more_messages() -> None:
    question, reply = (USER("Weather?"),), (BOT("4 °C."),)
    call = span("call", messages_in=(BE_KIND, *question, *STEPS), messages_out=reply)

    result = build_turn(span(messages_in=question, messages_out=reply, conventions=("palaver", "gen_ai")), [call])

    assert (result.span_id, result.messages_in, result.messages_out) == ("root", question, reply)


def test_a_root_with_the_same_steps_or_other_messages_than_the_call_is_used() -> None:
    reply = BOT("4 °C.")
    call = span("call", messages_in=(BE_KIND, USER("Weather?"), *STEPS), messages_out=(reply,))

    for question, answer in (
        ((USER("Weather?"),), (*STEPS, reply)),
        ((USER("Weather?"),), (BOT("Cold."),)),
        ((USER("Weather?"),), (BOT(ToolCall("c1", "weather", "{}")),)),
        ((USER("Weather, please?"),), (reply,)),
        ((BE_KIND,), (reply,)),
    ):
        root = span(messages_in=question, messages_out=answer)

        assert (build_turn(root, [call]).span_id, build_turn(root, [call]).messages_out) == ("root", answer)


def test_text_inputs_and_outputs_become_messages_if_no_span_has_messages() -> None:
    result = build_turn(span(inputs="What?", outputs="That."), [span("call")])

    assert (result.span_id, result.messages_in, result.messages_out) == ("root", (USER("What?"),), (BOT("That."),))


def test_inputs_and_outputs_that_are_not_text_become_data_parts() -> None:
    result = build_turn(span(inputs={"city": "Oslo"}, outputs=[1]))

    assert result.messages_in == (USER(Data(name="inputs", value={"city": "Oslo"})),)
    assert result.messages_out == (BOT(Data(name="outputs", value=[1])),)


def test_empty_inputs_and_outputs_give_no_messages() -> None:
    for inputs, outputs in ((None, ""), ({}, [])):
        result = build_turn(span(inputs=inputs, outputs=outputs))

        assert (result.messages_in, result.messages_out) == ((), ())


def test_input_messages_repeated_in_the_output_are_removed_from_it() -> None:
    question = (BE_KIND, USER("Hi"))

    result = build_turn(span(messages_in=question, messages_out=(*question, BOT("Hello."))))

    assert (result.messages_in, result.messages_out) == (question, (BOT("Hello."),))


def test_tool_spans_that_match_no_tool_call_message_become_tool_steps() -> None:
    call = BOT(ToolCall(call_id="c1", name="told"), ToolCall(call_id="c2", name="named"))
    root = span(messages_in=(USER("Hi"), call), messages_out=(BOT("Hello."),))
    tools = [
        span("by-id", tool=Tool("told", "c1")),
        span("by-name", tool=Tool("named")),
        span("again", tool=Tool("named"), inputs={"a": 1}, outputs=2, status="error"),
        span("bare"),
    ]

    assert build_turn(root, (), tools).tools == (
        ToolStep(trace_id="t", span_id="again", name="named", call_id=None, inputs={"a": 1}, outputs=2, status="error"),
        ToolStep(trace_id="t", span_id="bare", name="bare", call_id=None, inputs=None, outputs=None, status="ok"),
    )


def test_a_tool_span_with_a_tool_result_message_is_not_a_step() -> None:
    root = span(messages_in=(USER("Hi"), Message.tool("c1", 4)), messages_out=(BOT("4"),))

    assert build_turn(root, (), [span("calc", tool=Tool("calc", "c1"))]).tools == ()


# A session


def test_repeated_history_is_shown_once() -> None:
    tabs = build_tabs(
        [
            turn(1, [BE_KIND, USER("Hi")], BOT("Hello.")),
            turn(2, [BE_KIND, USER("Hi"), BOT("Hello."), USER("And?")], BOT("Well.")),
            turn(3, [USER(" Hi "), BOT("Hello."), USER("And?"), BOT("Well."), USER("Bye")], BOT("Bye.")),
        ]
    )

    assert summarize_tabs(tabs) == [(None, ["Be kind.", "Hi", "Hello.", "And?", "Well.", "Bye", "Bye."])]
    assert tabs[0].steps[3] == MessageStep(trace_id="t2", span_id="s2", message=USER("And?"))


def test_traces_with_only_new_messages_are_appended() -> None:
    tabs = build_tabs(
        [
            turn(1, [BE_KIND, USER("Hi")], BOT("Hello.")),
            turn(2, [BE_KIND, USER("And?")], BOT("Well.")),
            turn(3, [USER("Hi")], BOT("Hello.")),
        ]
    )

    assert summarize_tabs(tabs) == [(None, ["Be kind.", "Hi", "Hello.", "And?", "Well.", "Hi", "Hello."])]


def test_changed_system_instructions_are_shown() -> None:
    tabs = build_tabs(
        [turn(1, [BE_KIND, USER("Hi")], BOT("Hello.")), turn(2, [Message.system("Be brief."), USER("And?")])]
    )

    assert summarize_tabs(tabs) == [(None, ["Be kind.", "Hi", "Hello.", "Be brief.", "And?"])]


def test_another_answer_to_the_same_question_is_a_branch() -> None:
    tabs = build_tabs([turn(1, [USER("Hi")], BOT("Hello.")), turn(2, [USER("Hi")], BOT("Good day."))])

    assert summarize_tabs(tabs) == [(None, ["Hi", "Hello."]), (Origin(0, 1), ["Good day."])]


def test_another_question_is_a_branch_and_both_branches_continue() -> None:
    first = [USER("Hi"), BOT("Hello.")]
    tabs = build_tabs(
        [
            turn(1, first[:1], first[1]),
            turn(2, [*first, USER("A?")], BOT("a")),
            turn(3, [*first, USER("B?")], BOT("b")),
            turn(4, [*first, USER("A?"), BOT("a"), USER("A2?")], BOT("a2")),
            turn(5, [*first, USER("B?"), BOT("b"), USER("B2?")], BOT("b2")),
        ]
    )

    assert summarize_tabs(tabs) == [
        (None, ["Hi", "Hello.", "A?", "a", "A2?", "a2"]),
        (Origin(0, 2), ["B?", "b", "B2?", "b2"]),
    ]


def test_an_unrelated_history_opens_a_separate_tab() -> None:
    tabs = build_tabs([turn(1, [USER("Hi")], BOT("Hello.")), turn(2, [USER("x"), BOT("y"), USER("z")], BOT("!"))])

    assert summarize_tabs(tabs) == [(None, ["Hi", "Hello."]), (None, ["x", "y", "z", "!"])]


def test_two_traces_with_the_same_messages_are_shown_once() -> None:
    tabs = build_tabs([turn(1, [USER("Hi")], BOT("Hello.")), turn(2, [USER("Hi")], BOT("Hello."))])

    assert summarize_tabs(tabs) == [(None, ["Hi", "Hello."])]


def test_a_truncated_history_continues_the_conversation() -> None:
    tabs = build_tabs(
        [
            turn(1, [USER("1")], BOT("one")),
            turn(2, [USER("1"), BOT("one"), USER("2")], BOT("two")),
            turn(3, [BE_KIND, USER("2"), BOT("two"), USER("3")], BOT("three")),
        ]
    )

    assert summarize_tabs(tabs) == [(None, ["1", "one", "2", "two", "3", "three"])]


def test_a_history_without_tool_steps_continues_the_conversation() -> None:
    call = BOT(ToolCall(call_id="c", name="calc", arguments='{"e": "2+2"}'))
    tabs = build_tabs(
        [
            turn(1, [USER("2+2?")], call, Message.tool("c", 4), BOT(Reasoning(text="…"), "4")),
            turn(2, [USER("2+2?"), BOT("4"), USER("Sure?")], BOT("Yes.")),
        ]
    )

    assert summarize_tabs(tabs) == [(None, ["2+2?", "", "", "4", "Sure?", "Yes."])]


def test_tool_calls_are_compared_by_name_and_arguments_and_files_by_url() -> None:
    def tool_call(call_id: str, arguments: str) -> Message:
        return BOT(ToolCall(call_id=call_id, name="calc", arguments=arguments))

    picture = File(media_type="image/png", url="https://example.com/a.png")
    first = [USER("?", picture), tool_call("c1", '{"a": 1}'), Message.tool("c1", {"b": 2}), BOT("2")]
    repeated = [USER("?", picture), tool_call("x", '{"a":1}'), Message.tool("x", {"b": 2}), BOT("2"), USER("!")]
    different = [USER("?", File(media_type="image/png", url="https://example.com/b.png")), BOT("2"), USER("!")]

    assert len(build_tabs([turn(1, first[:1], *first[1:]), turn(2, repeated)])) == 1
    assert len(build_tabs([turn(1, first[:1], *first[1:]), turn(2, different)])) == 2


def test_tool_steps_are_listed_between_question_and_answer() -> None:
    step = ToolStep(trace_id="t1", span_id="x", name="calc", call_id=None, inputs=None, outputs=4, status="ok")
    tabs = build_tabs(
        [
            turn(1, [USER("2+2?")], BOT("4"), tools=(step,)),
            turn(2, [USER("2+2?"), BOT("four")], BOT("Yes.")),
            turn(3, [], tools=(step,)),
        ]
    )

    assert summarize_tabs(tabs) == [(None, ["2+2?", "calc", "4"]), (Origin(0, 1), ["four", "Yes.", "calc"])]


TEXTS = st.sampled_from(["a", "b", ""])
PARTS = st.one_of(
    TEXTS.map(lambda text: Text(text=text)),
    TEXTS.map(lambda text: ToolCall(call_id=text, name=text, arguments=text)),
    TEXTS.map(lambda text: ToolResult(call_id=text, output=text)),
)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    parts=st.lists(PARTS, max_size=2).map(tuple),
)
TURNS = st.builds(
    Turn,
    trace_id=st.just("t"),
    span_id=st.just("s"),
    messages_in=st.lists(MESSAGES, max_size=4).map(tuple),
    messages_out=st.lists(MESSAGES, max_size=2).map(tuple),
)


@given(st.lists(TURNS, max_size=6))
def test_every_tab_branches_from_an_earlier_tab(turns: list[Turn]) -> None:
    tabs = build_tabs(turns)

    for index, tab in enumerate(tabs):
        if tab.origin is not None:
            assert tab.origin.tab < index


@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS.filter(bool)), min_size=1, max_size=5))
def test_a_session_whose_turns_repeat_the_history_shows_each_message_once(exchanges: list[tuple[str, str]]) -> None:
    history: list[Message] = []
    turns: list[Turn] = []
    for number, (question, reply_text) in enumerate(exchanges):
        turns.append(turn(number, [*history, USER(question)], BOT(reply_text)))
        history += [USER(question), BOT(reply_text)]

    assert summarize_tabs(build_tabs(turns)) == [(None, [message.text for message in history])]


# Continuing a conversation


def test_continuing_takes_workflow_messages_inputs_parameters_and_tools_of_the_root() -> None:
    root = span(
        workflow="tutor",
        inputs={"topic": "sums", "messages": [{"role": "user", "content": "Hi"}]},
        parameters={"temperature": 0},
        tools=(ToolDefinition("calc"),),
        messages_in=(USER("Hi"),),
        messages_out=(BOT("Hello."),),
    )

    assert build_live(root, build_turn(root)) == ThreadDraft(
        workflow="tutor",
        messages=(USER("Hi"), BOT("Hello.")),
        inputs={"topic": "sums"},
        parameters={"temperature": 0},
        tools=(ToolDefinition("calc"),),
    )


def test_ai_sdk_prompt_fields_are_left_out_of_the_inputs() -> None:
    inputs = {"system": "Be kind.", "prompt": "Hi", "messages": [], "city": "Oslo"}

    assert build_live(span(inputs=inputs, conventions=("ai-sdk",)), build_turn(span())).inputs == {"city": "Oslo"}
    assert build_live(span(inputs=inputs), build_turn(span())).inputs == {
        "system": "Be kind.",
        "prompt": "Hi",
        "city": "Oslo",
    }


def test_a_question_and_its_history_are_left_out_of_the_inputs() -> None:
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    inputs = {"question": "And?", "history": history, "city": "Oslo"}

    assert build_live(span(inputs=inputs), build_turn(span())).inputs == {"city": "Oslo"}
    # A workflow of Palaver's that declares these inputs gets them again.
    assert build_live(span(inputs=inputs, conventions=("palaver",)), build_turn(span())).inputs == inputs


def test_continuing_from_an_earlier_message_and_from_a_span() -> None:
    root = span(workflow="tutor", inputs="Hi", parameters={"a": 1}, messages_in=(USER("Hi"),), messages_out=(BOT("!"),))
    call = span("call", parameters={"b": 2}, tools=(ToolDefinition("calc"),), inputs={"x": 1})

    assert build_live(root, build_turn(root), upto=1).messages == (USER("Hi"),)
    assert build_live(root, build_turn(root), upto=0).messages == ()
    assert build_live(root, build_turn(call), call) == ThreadDraft(
        workflow="tutor",
        messages=(USER(Data(name="inputs", value={"x": 1})),),
        inputs={"x": 1},
        parameters={"b": 2},
        tools=(ToolDefinition("calc"),),
    )

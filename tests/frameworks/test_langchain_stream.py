"""Chunks of LangChain models yielded by a chat, converted to events."""

from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessageChunk,
    FunctionMessageChunk,
    HumanMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from palaver import Data, Message, Reasoning, Refusal, Text, ToolCall, Usage, chat
from palaver.core.events import RunFinished, RunStarted
from palaver.core.fold import fold
from palaver.core.grammar import Grammar
from palaver.core.messages import Annotation
from palaver.engine.run import Run
from palaver.errors import BadStream
from palaver.frameworks.langchain.adapter import Reader
from tests.core.stream_checker import check_stream
from tests.engine.run_factory import QUESTION, RUN, reply, reply_of, run_to_end
from tests.frameworks.langchain_models import call, lines, tool_call_chunks, tool_call_message, words


async def run_chat(*values: Any) -> Run:
    """Run a chat that yields these values."""

    async def answer(messages: list[Message]) -> Any:
        for value in values:
            yield value

    return await run_to_end(chat(answer), QUESTION)


def chunk(content: Any = "", **fields: Any) -> AIMessageChunk:
    return AIMessageChunk(content=content, **fields)


# Text and reasoning


async def test_chunks_with_text_become_text_deltas() -> None:
    run = await run_chat(*words("Hel", "", "lo", id="m"))

    assert lines(run) == ["text m of m", "m + Hel", "m + lo", "m ends", "stop"]


async def test_a_chunk_without_an_id_belongs_to_the_open_message() -> None:
    run = await run_chat(chunk("a", id="m"), chunk("b"), chunk("c", chunk_position="last"), chunk("d"), chunk("e"))

    assert reply_of(run) == reply(Message.assistant("abc"), Message.assistant("de"))
    assert lines(run)[:4] == ["text m of m", "m + a", "m + b", "m + c"]


async def test_messages_may_be_streamed_at_the_same_time() -> None:
    run = await run_chat(chunk("a", id="m"), chunk("1", id="n"), chunk("b", id="m"), chunk("2", id="n"))

    assert lines(run) == [
        "text m of m",
        "m + a",
        "text n of n",
        "n + 1",
        "m + b",
        "n + 2",
        "m ends",
        "n ends",
        "stop",
    ]


async def test_a_chunk_without_an_id_belongs_to_the_message_of_its_branch() -> None:
    def piece(text: str, branch: str) -> Any:
        return chunk(text), {"langgraph_checkpoint_ns": branch}

    run = await run_chat((chunk("a", id="m"), {"langgraph_checkpoint_ns": "x"}), piece("1", "y"), piece("b", "x"))

    assert reply_of(run) == reply(Message.assistant("ab"), Message.assistant("1"))


REASONING: dict[str, list[Any]] = {
    "thinking": [
        [{"type": "thinking", "thinking": "H", "index": 0}],
        [{"type": "thinking", "thinking": "m.", "index": 0}],
        [{"type": "thinking", "thinking": "", "signature": "s1", "index": 0}],
        [{"type": "thinking", "signature": "s2", "index": 0}],
        [{"type": "text", "text": "a", "index": 1}],
        [{"type": "thinking", "signature": "late", "index": 0}],
    ],
    "reasoning": [
        [{"type": "reasoning", "reasoning": "Hm"}],
        [{"type": "reasoning", "reasoning": ".", "extras": {"signature": "s1s2"}}],
        "a",
    ],
}


@pytest.mark.parametrize("case", REASONING)
async def test_reasoning_is_streamed_and_its_signature_adds_no_text(case: str) -> None:
    run = await run_chat(*[chunk(content, id="m") for content in REASONING[case]])

    assert reply_of(run) == reply(Message.assistant(Reasoning(text="Hm.", encrypted="s1s2"), "a"))


async def test_paragraphs_of_a_streamed_summary_are_separated_by_a_blank_line() -> None:
    def piece(text: str, paragraph: int) -> AIMessageChunk:
        summary = [{"type": "summary_text", "text": text, "index": paragraph}]
        return chunk([{"type": "reasoning", "summary": summary, "index": 0}], id="m")

    run = await run_chat(piece("On", 0), piece("e.", 0), piece("Two.", 1))

    assert reply_of(run) == reply(Message.assistant(Reasoning(text="One.\n\nTwo.")))


async def test_reasoning_in_additional_kwargs_is_streamed() -> None:
    run = await run_chat(
        chunk(additional_kwargs={"reasoning_content": "H"}),
        chunk(additional_kwargs={"reasoning_content": "m."}),
        chunk("a"),
    )

    assert reply_of(run) == reply(Message.assistant(Reasoning(text="Hm."), "a"))


async def test_a_streamed_refusal_is_joined_into_one_part() -> None:
    run = await run_chat(chunk(additional_kwargs={"refusal": "I "}), chunk([{"type": "refusal", "refusal": "cannot."}]))

    assert reply_of(run) == reply(Message.assistant(Refusal(text="I cannot.")))


async def test_annotation_offsets_of_a_block_are_shifted_to_the_joined_text() -> None:
    citation = {"type": "url_citation", "url": "https://a", "start_index": 1, "end_index": 2}
    run = await run_chat(
        chunk([{"type": "text", "text": "ab", "index": 0}], id="m"),
        chunk([{"type": "text", "text": "cd", "index": 1}], id="m"),
        chunk([{"type": "text", "text": "ef", "index": 1}], id="m"),
        chunk([{"type": "text", "text": "", "index": 1, "annotations": [citation]}], id="m"),
    )
    annotation = Annotation(kind="url", url="https://a", start=3, end=4)

    assert reply_of(run) == reply(Message.assistant(Text(text="abcdef", annotations=(annotation,))))
    assert reply_of(await run_chat(chunk([{"type": "text", "text": "", "annotations": [citation]}]))) == reply()


async def test_blocks_of_other_types_become_data_parts_in_order() -> None:
    run = await run_chat(
        chunk("a", id="m"), chunk([{"type": "server_tool_call", "name": "s"}], id="m"), chunk("b", id="m")
    )

    assert reply_of(run) == reply(
        Message.assistant(
            "a", Data(name="langchain:server_tool_call", value={"type": "server_tool_call", "name": "s"}), "b"
        )
    )


async def test_chunks_of_other_roles_are_ignored_and_tool_chunks_become_results() -> None:
    run = await run_chat(
        HumanMessageChunk(content="x"),
        ChatMessageChunk(role="critic", content="x"),
        ChatMessageChunk(role="assistant", content="a"),
        *tool_call_chunks((0, "c1", "f", "{}"), (1, "c2", "g", "{}")),
        ToolMessageChunk(content="1", tool_call_id="c1"),
        FunctionMessageChunk(content="2", name="g"),
    )

    assert reply_of(run) == reply(
        Message.assistant(
            "a", ToolCall(call_id="c1", name="f", arguments="{}"), ToolCall(call_id="c2", name="g", arguments="{}")
        ),
        Message.tool("c1", "1"),
        Message.tool("c2", "2"),
    )


async def test_complete_messages_are_separate_from_the_text_around_them() -> None:
    run = await run_chat("a", AIMessage("b", id="m"), "c", AIMessage("d"), "e")

    assert reply_of(run) == reply(*[Message.assistant(text) for text in "abcde"])


async def test_a_chunk_without_an_id_after_a_complete_message_starts_a_new_one() -> None:
    run = await run_chat(chunk("a", id="m"), AIMessage("a", id="m"), chunk("b"))

    assert reply_of(run) == reply(Message.assistant("a"), Message.assistant("b"))


# Calls


async def test_tool_call_chunks_are_joined_by_index() -> None:
    run = await run_chat(
        *words("So:", id="m"),
        *tool_call_chunks(
            (0, "c1", "f", ""), (0, None, None, '{"a"'), (0, None, None, ":1}"), (1, "c2", "g", "{}"), id="m"
        ),
    )

    assert lines(run) == [
        "text m of m",
        "m + So:",
        "m ends",
        "call fc_c1 of m: f",
        'fc_c1 + {"a"',
        "fc_c1 + :1}",
        "fc_c1 ends",
        "call fc_c2 of m: g",
        "fc_c2 + {}",
        "fc_c2 ends",
        "tool-calls",
    ]


async def test_tool_call_chunks_without_an_index_are_joined_by_id_or_to_the_last_call() -> None:
    run = await run_chat(
        *tool_call_chunks(
            (None, "c1", "f", '{"a"'), (None, "c1", None, ":1"), (None, None, None, "}"), (None, "c2", "g", "{}")
        )
    )

    assert reply_of(run) == reply(
        Message.assistant(
            ToolCall(call_id="c1", name="f", arguments='{"a":1}'), ToolCall(call_id="c2", name="g", arguments="{}")
        ),
        finish="tool-calls",
    )


async def test_one_index_with_two_ids_is_two_calls() -> None:
    run = await run_chat(
        *tool_call_chunks((0, "c1", "f", "{"), (0, None, None, "}"), (0, "c2", "g", "["), (0, None, None, "]"))
    )

    assert [part for message in reply_of(run).messages for part in message.parts] == [
        ToolCall(call_id="c1", name="f", arguments="{}"),
        ToolCall(call_id="c2", name="g", arguments="[]"),
    ]


async def test_a_tool_call_is_buffered_until_its_name_is_known() -> None:
    run = await run_chat(*tool_call_chunks((0, "c1", None, '{"a"'), (0, None, "f", ":1"), (0, None, None, "}"), id="m"))

    assert lines(run)[:4] == ["call fc_c1 of m: f", 'fc_c1 + {"a":1', "fc_c1 + }", "fc_c1 ends"]


async def test_tool_calls_without_a_name_or_an_id_get_a_default_one() -> None:
    run = await run_chat(*tool_call_chunks((0, "c1", None, "{}"), (1, None, "g", None)))

    assert reply_of(run) == reply(
        Message.assistant(
            ToolCall(call_id="c1", name="unknown", arguments="{}"),
            ToolCall(call_id=f"call_{RUN.removeprefix('run_')}_2", name="g"),
        ),
        finish="tool-calls",
    )


@pytest.mark.parametrize("arguments", ["{bad", '{"a": "b', "", "[1"])
async def test_argument_text_that_is_not_valid_json_is_passed_on_unchanged(arguments: str) -> None:
    pieces = tool_call_chunks((0, "c1", "f", ""), *[(0, None, None, letter) for letter in arguments])

    assert reply_of(await run_chat(*pieces)).messages[0].tool_calls == [
        ToolCall(call_id="c1", name="f", arguments=arguments)
    ]


CALL_ENDINGS: dict[str, list[Any]] = {
    "another index": tool_call_chunks((1, "c2", "g", "{}"), id="m"),
    "a text piece": words("x", id="m"),
    "a reasoning piece": [chunk([{"type": "thinking", "thinking": "x"}], id="m")],
    "the last chunk": [chunk(id="m", chunk_position="last")],
    "the whole message": [tool_call_message(call("f", "c1"), id="m")],
    "another message": words("x", id="n"),
    "its result": [ToolMessage("1", tool_call_id="c1")],
}


@pytest.mark.parametrize("case", CALL_ENDINGS)
async def test_a_tool_call_ends_when_anything_else_arrives(case: str) -> None:
    run = await run_chat(*tool_call_chunks((0, "c1", "f", "{}"), id="m"), *CALL_ENDINGS[case], *words("late", id="z"))

    assert lines(run)[:3] == ["call fc_c1 of m: f", "fc_c1 + {}", "fc_c1 ends"]


async def test_partial_arguments_continue_after_another_message_has_started() -> None:
    run = await run_chat(
        *tool_call_chunks((0, "c1", "f", '{"a'), id="m"),
        *tool_call_chunks((0, "c2", "g", '{"b'), id="n"),
        *tool_call_chunks((0, None, None, '":1}'), id="m"),
        *tool_call_chunks((0, None, None, '":2}'), id="n"),
    )

    assert [call.arguments for message in reply_of(run).messages for call in message.tool_calls] == [
        '{"a":1}',
        '{"b":2}',
    ]


async def test_a_chunk_of_an_ended_tool_call_fails_the_run_with_bad_stream() -> None:
    run = await run_chat(*tool_call_chunks((0, "c1", "f", "{}"), (1, "c2", "g", "{}"), (0, None, None, "x"), id="m"))

    assert lines(run)[-1].startswith("bad_stream: Invalid workflow output after")


async def test_a_reused_call_id_is_a_new_call_and_results_answer_the_newest_open_one() -> None:
    def turn(message: str) -> list[Any]:
        return [*tool_call_chunks((0, "c1", "f", "{}"), id=message), ToolMessage(f"by {message}", tool_call_id="c1")]

    run = await run_chat(*turn("m"), *turn("n"), *tool_call_chunks((0, "c1", "f", "{}"), (1, "c1", "f", "{}"), id="o"))

    assert [line for line in lines(run) if line.startswith(("call", "result"))] == [
        "call fc_c1 of m: f",
        "result fco_c1: by m",
        "call fc_c1.2 of n: f",
        "result fco_c1.2: by n",
        "call fc_c1.3 of o: f",
        "call fc_c1.4 of o: f",
    ]


# The complete message after its chunks


COMPLETE_MESSAGES: dict[str, tuple[list[Any], AIMessage, list[Any]]] = {
    "nothing new": (words("a", "b", id="m"), AIMessage("ab", id="m"), ["ab"]),
    "the rest of a text": (words("a", id="m"), AIMessage("abc", id="m"), ["abc"]),
    "the rest of a text that had ended": (
        [*words("a", id="m"), chunk(id="m", chunk_position="last")],
        AIMessage("abc", id="m"),
        ["a", "bc"],
    ),
    "all of a text": ([chunk(id="m")], AIMessage("abc", id="m"), ["abc"]),
    "less": (words("abc", id="m"), AIMessage("", id="m"), ["abc"]),
    "calls that came in no chunk": (
        tool_call_chunks((0, "c1", "f", "{}"), id="m"),
        tool_call_message(call("f", "c1"), call("g", "c2"), id="m"),
        [ToolCall(call_id="c1", name="f", arguments="{}"), ToolCall(call_id="c2", name="g", arguments="{}")],
    ),
    "calls without ids that came": (
        tool_call_chunks((0, None, "f", "{}"), id="m"),
        tool_call_message(call("f", None), id="m"),
        [ToolCall(call_id=f"call_{RUN.removeprefix('run_')}_1", name="f", arguments="{}")],
    ),
    "a refusal": (
        words("a", id="m"),
        AIMessage("a", additional_kwargs={"refusal": "No."}, id="m"),
        ["a", Refusal("No.")],
    ),
    "a refusal that came": (
        [chunk(additional_kwargs={"refusal": "No."}, id="m")],
        AIMessage("", additional_kwargs={"refusal": "No."}, id="m"),
        [Refusal("No.")],
    ),
}


@pytest.mark.parametrize("case", COMPLETE_MESSAGES)
async def test_a_complete_message_after_its_chunks_adds_only_what_is_new(case: str) -> None:
    chunks, complete, parts = COMPLETE_MESSAGES[case]
    run = await run_chat(*chunks, complete, complete)
    calls = any(isinstance(part, ToolCall) for part in parts)

    assert reply_of(run) == reply(Message.assistant(*parts), finish="tool-calls" if calls else "stop")
    assert run.warnings == []


async def test_a_complete_text_that_differs_from_the_streamed_text_is_ignored() -> None:
    run = await run_chat(*words("abc", id="m"), AIMessage("xyz", id="m"))

    assert reply_of(run) == reply(Message.assistant("abc"))
    assert run.warnings == ["the final text of a message differs from its streamed text, which was kept"]


def usage_metadata(input_tokens: int, output_tokens: int) -> Any:
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, "total_tokens": input_tokens + output_tokens}


async def test_usage_of_chunks_is_summed_and_takes_precedence_over_the_complete_message() -> None:
    streamed = [
        chunk("a", id="m", usage_metadata=usage_metadata(5, 0)),
        chunk(id="m", usage_metadata=usage_metadata(0, 2)),
    ]
    metadata = {"token_usage": {"prompt_tokens": 5, "completion_tokens": 2}}

    assert reply_of(
        await run_chat(*streamed, AIMessage("a", id="m", usage_metadata=usage_metadata(5, 2)))
    ).usage == Usage(5, 2)
    assert reply_of(await run_chat(*streamed, chunk(id="m", response_metadata=metadata))).usage == Usage(5, 2)
    assert reply_of(
        await run_chat(*words("a", id="m"), AIMessage("a", id="m", usage_metadata=usage_metadata(5, 2)))
    ).usage == Usage(5, 2)


async def test_the_finish_reason_is_that_of_the_last_message() -> None:
    cut = chunk(id="m", response_metadata={"finish_reason": "length"}, chunk_position="last")

    assert reply_of(await run_chat(*words("a", id="m"), cut)).finish == "length"
    assert reply_of(await run_chat(*words("a", id="m"), cut, *words("b", id="n"))).finish == "stop"


# Other objects of LangChain


async def test_values_that_are_not_messages_become_data_parts() -> None:
    from langchain_core.documents import Document

    run = await run_chat(Document(page_content="x"), [Document(page_content="y")], (AIMessage("a", id="m"), 1))

    assert [part for message in reply_of(run).messages for part in message.parts] == [
        Data(name="output", value={"id": None, "metadata": {}, "page_content": "x", "type": "Document"}),
        Data(name="output", value=[{"id": None, "metadata": {}, "page_content": "y", "type": "Document"}]),
        Data(name="output", value=[AIMessage("a", id="m").model_dump(mode="json"), 1]),
    ]


# Any input gives a valid stream


ids = st.sampled_from([None, "m", "n", "x" * 70])
texts = st.text(max_size=3)
call_ids = st.sampled_from([None, "", "c1", "c2"])
blocks = st.one_of(
    texts,
    st.builds(lambda text, block: {"type": "text", "text": text, "id": block}, texts, ids),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, texts),
    st.builds(lambda text: {"type": "refusal", "refusal": text}, texts),
    st.builds(lambda call_id: {"type": "tool_use", "id": call_id}, call_ids),
    st.just({"type": "image", "url": "https://a"}),
    st.just({"type": "other"}),
)
contents = st.one_of(texts, st.lists(blocks, max_size=3))
pieces = st.builds(
    lambda index, call_id, name, args: {
        "type": "tool_call_chunk",
        "index": index,
        "id": call_id,
        "name": name,
        "args": args,
    },
    st.sampled_from([None, 0, 1]),
    call_ids,
    st.sampled_from([None, "f"]),
    st.sampled_from([None, "", "{", "}", "1"]),
)
chunks = st.builds(
    AIMessageChunk,
    content=contents,
    id=ids,
    tool_call_chunks=st.lists(pieces, max_size=2),
    chunk_position=st.sampled_from([None, "last"]),
)
complete_messages = st.builds(
    AIMessage,
    content=contents,
    id=ids,
    tool_calls=st.lists(st.builds(lambda call_id: call("f", call_id, a=1), call_ids), max_size=2),
)


def read_events(values: list[Any]) -> Any:
    grammar, reader = Grammar(RUN), Reader()
    events = [*grammar.start(RunStarted(run_id=RUN))]
    try:
        for value in values:
            for each in reader.feed(value) or ():
                events += grammar.feed(each)
        for each in reader.end():
            events += grammar.feed(each)
    except BadStream:
        assert grammar.ending is not None
    return [*events, *grammar.end(grammar.ending or RunFinished())]


@hypothesis_given(st.lists(complete_messages, max_size=6))
def test_any_complete_messages_give_a_valid_stream_with_all_their_text(messages: list[AIMessage]) -> None:
    events = read_events(messages)
    check_stream(events)
    text = "".join(message.text for message in fold(events).messages)

    assert text == "".join(message.text for message in messages)


@hypothesis_given(st.lists(st.builds(AIMessageChunk, content=contents, id=ids), max_size=8))
def test_any_chunks_give_a_valid_stream_with_all_their_text(given: list[AIMessageChunk]) -> None:
    events = read_events(given)
    check_stream(events)

    characters = sorted("".join(message.text for message in fold(events).messages))
    assert characters == sorted("".join(each.text for each in given))


tool_messages = st.builds(ToolMessage, content=texts, tool_call_id=st.sampled_from(["c1", "c2"]), id=ids)


@hypothesis_given(st.lists(chunks | complete_messages | tool_messages, max_size=10))
def test_any_chunks_messages_and_results_give_a_valid_stream(given: list[Any]) -> None:
    check_stream(read_events(given))

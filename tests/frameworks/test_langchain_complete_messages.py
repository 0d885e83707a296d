"""Complete LangChain messages returned by a chat, converted to events."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from palaver import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage, chat
from palaver.core.messages import Annotation
from palaver.core.runs import Reply
from palaver.engine.run import Run
from tests.engine.run_factory import QUESTION, RUN, reply, reply_of, run_to_end
from tests.frameworks.langchain_models import call, lines, tool_call_message


async def run_chat(*messages: Any, history: Sequence[Message] = (QUESTION,)) -> Run:
    """Run a chat that returns these messages."""

    async def answer(messages: list[Message]) -> Any:
        return list(output)

    output = messages
    return await run_to_end(chat(answer), *history)


async def chat_reply(*messages: Any) -> Reply:
    return reply_of(await run_chat(*messages))


def assistant_reply(*parts: Any, **fields: Any) -> Reply:
    return reply(Message.assistant(*parts), **fields)


# Content


CONTENT: dict[str, tuple[Any, list[Any]]] = {
    "a string": ("Hi.", [Text(text="Hi.")]),
    "blanks": ("  ", [Text(text="  ")]),
    "nothing": ("", []),
    "an empty list": ([], []),
    "texts that stand together are one": (
        ["a", {"type": "text", "text": "b"}, {"type": "output_text", "text": "c"}, {"type": "text", "text": ""}],
        [Text(text="abc")],
    ),
    "texts of different blocks are two": (
        [{"type": "text", "text": "a", "id": "1"}, {"type": "text", "text": "b", "id": "2"}, "c"],
        [Text(text="a"), Text(text="bc")],
    ),
    "texts of one block are one": (
        [{"type": "text", "text": "a", "id": "1"}, {"type": "text", "text": "b", "id": "1"}],
        [Text(text="ab")],
    ),
    "a text that has no type": ([{"text": "a"}], [Text(text="a")]),
    "thinking": (
        [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, "a"],
        [Reasoning(text="Hm.", encrypted="s"), Text(text="a")],
    ),
    "reasoning": (
        ["a", {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "s"}}, "b"],
        [Text(text="a"), Reasoning(text="Hm.", encrypted="s"), Text(text="b")],
    ),
    "a summary": (
        [
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
                "encrypted_content": "e",
            }
        ],
        [Reasoning(text="One.\n\nTwo.", encrypted="e")],
    ),
    "Bedrock's reasoning": (
        [{"type": "reasoning_content", "reasoning_content": {"text": "Hm.", "signature": "s"}}],
        [Reasoning(text="Hm.", encrypted="s")],
    ),
    "reasoning that nobody may read": (
        [
            {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "reasoning", "summary": []},
            {"type": "redacted_thinking", "data": "x"},
            "a",
        ],
        [Text(text="a")],
    ),
    "a refusal": ([{"type": "refusal", "refusal": "No."}, {"type": "refusal", "refusal": ""}], [Refusal(text="No.")]),
    "places of calls that nobody made": (
        [{"type": "tool_use", "id": "x"}, {"type": "function_call"}, "a", {"type": "input_json_delta"}],
        [Text(text="a")],
    ),
    "anything else": (
        [{"type": "web_search_call", "id": "w", "at": datetime(2026, 1, 1, tzinfo=UTC)}, {"n": 1}],
        [
            Data(
                name="langchain:web_search_call",
                value={"type": "web_search_call", "id": "w", "at": "2026-01-01T00:00:00Z"},
            ),
            Data(name="langchain:part", value={"n": 1}),
        ],
    ),
}

PNG, WAV = "iVBO", "UklG"

FILES: dict[str, tuple[Any, File]] = {
    "an image by URL": ({"type": "image", "url": "https://a/b.png"}, File(media_type="image/*", url="https://a/b.png")),
    "an image as base64": (
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        File(media_type="image/png", data=PNG),
    ),
    "an image by id": ({"type": "image", "file_id": "f1"}, File(media_type="image/*", file_id="f1")),
    "an image as it was spelt before": (
        {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
        File(media_type="image/png", data=PNG),
    ),
    "Anthropic's image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        File(media_type="image/png", data=PNG),
    ),
    "OpenAI's image": (
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
        File(media_type="image/png", data=PNG, detail="low"),
    ),
    "an image URL": ({"type": "image_url", "image_url": "https://a/b"}, File(media_type="image/*", url="https://a/b")),
    "an input image": (
        {"type": "input_image", "image_url": "https://a/b", "detail": "high"},
        File(media_type="image/*", url="https://a/b", detail="high"),
    ),
    "a document": (
        {"type": "file", "base64": "JVBE", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
        File(media_type="application/pdf", data="JVBE", filename="a.pdf"),
    ),
    "OpenAI's document": (
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}},
        File(media_type="application/pdf", data="JVBE", filename="a.pdf"),
    ),
    "a sound": ({"type": "audio", "base64": WAV, "mime_type": "audio/wav"}, File(media_type="audio/wav", data=WAV)),
    "OpenAI's sound": (
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        File(media_type="audio/wav", data=WAV),
    ),
    "a film": ({"type": "video", "url": "https://a/b"}, File(media_type="video/*", url="https://a/b")),
}
CONTENT |= {name: (["a", block, "b"], [Text(text="a"), file, Text(text="b")]) for name, (block, file) in FILES.items()}
CONTENT["a file that is nowhere"] = (
    [{"type": "image"}],
    [Data(name="langchain:image", value={"type": "image"})],
)


@pytest.mark.parametrize("case", CONTENT)
async def test_content_is_converted_to_parts(case: str) -> None:
    content, parts = CONTENT[case]

    assert await chat_reply(AIMessage(content=content)) == (assistant_reply(*parts) if parts else reply())


# Annotations of text


CITATIONS: dict[str, tuple[Any, list[Annotation]]] = {
    "url": (
        {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 1},
        [Annotation(kind="url", url="https://a", title="A", start=2, end=3)],
    ),
    "LangChain's own": (
        {"type": "citation", "url": "https://a", "cited_text": "x"},
        [Annotation(kind="url", url="https://a")],
    ),
    "file": (
        {"type": "file_citation", "file_id": "f1", "filename": "a.txt", "index": 4},
        [Annotation(kind="file", file_id="f1", title="a.txt")],
    ),
    "indexes": ({"start_index": 1, "end_index": 3}, [Annotation(kind="span", start=3, end=5)]),
    "nothing": ({"type": "other"}, []),
}


@pytest.mark.parametrize("case", CITATIONS)
async def test_annotation_offsets_count_from_the_start_of_the_joined_text(case: str) -> None:
    citation, annotations = CITATIONS[case]
    content: Any = ["ab", {"type": "text", "text": "cde", "annotations": [citation]}]

    assert await chat_reply(AIMessage(content=content)) == assistant_reply(
        Text(text="abcde", annotations=tuple(annotations))
    )


async def test_offsets_in_a_document_cited_by_anthropic_are_left_out() -> None:
    citation = {"type": "char_location", "document_index": 0, "document_title": "D", "start_char_index": 7}
    result = {"type": "web_search_result_location", "url": "https://a", "title": "A"}
    content: Any = [{"type": "text", "text": "a", "citations": [citation, result]}]

    assert await chat_reply(AIMessage(content=content)) == assistant_reply(
        Text(
            text="a",
            annotations=(Annotation(kind="file", title="D"), Annotation(kind="url", url="https://a", title="A")),
        )
    )


# Additional kwargs


ADDITIONAL_KWARGS: dict[str, tuple[Any, dict[str, Any], list[Any]]] = {
    "reasoning": ("a", {"reasoning_content": "Hm."}, [Reasoning(text="Hm."), Text(text="a")]),
    "a summary": (
        "a",
        {"reasoning": {"summary": [{"text": "One."}, {"text": "Two."}]}},
        [Reasoning(text="One.\n\nTwo."), Text(text="a")],
    ),
    "reasoning that content has too": (
        [{"type": "thinking", "thinking": "Hm."}, "a"],
        {"reasoning_content": "Hm."},
        [Reasoning(text="Hm."), Text(text="a")],
    ),
    "a refusal": ("a", {"refusal": "No."}, [Text(text="a"), Refusal(text="No.")]),
}


@pytest.mark.parametrize("case", ADDITIONAL_KWARGS)
async def test_reasoning_and_refusals_in_additional_kwargs_become_parts(case: str) -> None:
    content, additional_kwargs, parts = ADDITIONAL_KWARGS[case]

    assert await chat_reply(AIMessage(content=content, additional_kwargs=additional_kwargs)) == assistant_reply(*parts)


# Calls


def tool_call_reply(*calls: ToolCall, text: str = "") -> Reply:
    return assistant_reply(*([Text(text=text)] if text else []), *calls, finish="tool-calls")


async def test_tool_calls_follow_the_content_in_order() -> None:
    message = tool_call_message(call("f", "c1", a="ä"), call("g", "c2"), content="So:")

    assert await chat_reply(message) == tool_call_reply(
        ToolCall(call_id="c1", name="f", arguments='{"a":"ä"}'),
        ToolCall(call_id="c2", name="g", arguments="{}"),
        text="So:",
    )


@pytest.mark.parametrize("kind", ["tool_use", "tool_call", "function_call"])
async def test_a_content_block_sets_the_position_of_its_tool_call(kind: str) -> None:
    content = ["a", {"type": kind, "id": "c2", "input": {"ignored": 1}}, "b"]
    message = tool_call_message(call("f", "c1"), call("g", "c2"), content=content)

    assert await chat_reply(message) == assistant_reply(
        Text(text="a"),
        ToolCall(call_id="c2", name="g", arguments="{}"),
        Text(text="b"),
        ToolCall(call_id="c1", name="f", arguments="{}"),
        finish="tool-calls",
    )


async def test_the_original_text_of_the_arguments_is_used_where_available() -> None:
    exact = '{ "a" : 1.0 }'
    additional_kwargs = {
        "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": exact}, "type": "function"}]
    }
    message = tool_call_message(call("f", "c1", a=1.0), call("g", "c2", b=1), additional_kwargs=additional_kwargs)

    assert await chat_reply(message) == tool_call_reply(
        ToolCall(call_id="c1", name="f", arguments=exact), ToolCall(call_id="c2", name="g", arguments='{"b":1}')
    )


async def test_argument_values_that_are_not_json_are_converted_to_text() -> None:
    message = tool_call_message(call("f", "c1", a={1: range(2)}, b=[object, 1]))

    assert await chat_reply(message) == tool_call_reply(
        ToolCall(call_id="c1", name="f", arguments='{"a":{"1":"range(0, 2)"},"b":["<class \'object\'>",1]}')
    )


@pytest.mark.parametrize("call_id", [None, ""])
async def test_a_call_without_an_id_gets_one(call_id: str | None) -> None:
    assert await chat_reply(tool_call_message(call("f", call_id))) == tool_call_reply(
        ToolCall(call_id=f"call_{RUN.removeprefix('run_')}_1", name="f", arguments="{}")
    )


async def test_invalid_tool_calls_are_returned_as_tool_calls() -> None:
    bad: Any = {"type": "invalid_tool_call", "id": "c2", "name": None, "args": "{bad", "error": "no JSON"}
    empty: Any = {"type": "invalid_tool_call", "id": "c3", "name": "h", "args": None, "error": None}
    valid: Any = call("f", "c1")
    message = AIMessage(
        content=[{"type": "tool_use", "id": "c2"}],
        tool_calls=[valid],
        invalid_tool_calls=[bad, empty],
    )

    assert await chat_reply(message) == tool_call_reply(
        ToolCall(call_id="c1", name="f", arguments="{}"),
        ToolCall(call_id="c2", name="unknown", arguments="{bad"),
        ToolCall(call_id="c3", name="h"),
    )


# Results


TOOL_CALLS_MESSAGE = tool_call_message(call("f", "c1"), call("g", "c2"))
CALLS = Message.assistant(
    ToolCall(call_id="c1", name="f", arguments="{}"), ToolCall(call_id="c2", name="g", arguments="{}")
)


async def test_a_tool_message_is_a_result() -> None:
    blocks: Any = [{"type": "text", "text": "4"}]
    answer = [
        ToolMessage(content=blocks, tool_call_id="c2", artifact={"secret": 1}),
        ToolMessage(content="No such thing.", tool_call_id="c1", status="error"),
        AIMessage("Four."),
    ]

    assert await chat_reply(TOOL_CALLS_MESSAGE, *answer) == reply(
        CALLS,
        Message.tool("c2", blocks),
        Message(role="tool", parts=(ToolResult(call_id="c1", output="No such thing.", is_error=True),)),
        Message.assistant("Four."),
    )


async def test_a_function_message_answers_the_last_open_call_of_its_name() -> None:
    repeated = tool_call_message(call("f", "c3"))
    run = await run_chat(
        TOOL_CALLS_MESSAGE, repeated, FunctionMessage(name="f", content="4"), FunctionMessage(name="h", content="?")
    )

    assert reply_of(run) == reply(
        CALLS,
        Message.assistant(ToolCall(call_id="c3", name="f", arguments="{}")),
        Message.tool("c3", "4"),
        finish="tool-calls",
    )
    assert run.warnings == ["dropped the result of function 'h', which was never called"]


async def test_a_result_for_an_unknown_call_fails_the_run_with_bad_stream() -> None:
    run = await run_chat(AIMessage("a", id="m"), ToolMessage(content="4", tool_call_id="c9"))

    assert lines(run) == [
        "text m of m",
        "m + a",
        "m ends",
        "bad_stream: Invalid workflow output after 4 events (tool-result): there is no call 'c9'.",
    ]


async def test_a_result_may_answer_a_call_of_the_history() -> None:
    approved = Message.user(Data(name="approval-response", value={"id": "c1", "approve": True}))
    earlier_call = Message.assistant(ToolCall(call_id="c1", name="f"))
    run = await run_chat(ToolMessage("4", tool_call_id="c1"), history=(QUESTION, earlier_call, approved))

    assert reply_of(run) == reply(Message.tool("c1", "4"))


# Other roles


async def test_messages_of_other_roles_are_left_out_of_the_answer() -> None:
    others = [HumanMessage("a"), SystemMessage("b"), ChatMessage(role="critic", content="c"), RemoveMessage(id="m")]

    assert await chat_reply(*others) == reply()
    assert await chat_reply(*others, ChatMessage(role="assistant", content="d")) == assistant_reply(Text(text="d"))


# Usage and finish reason


USAGE: dict[str, tuple[dict[str, Any], Usage | None]] = {
    "in full": (
        {
            "usage_metadata": {
                "input_tokens": 9,
                "output_tokens": 5,
                "total_tokens": 14,
                "input_token_details": {"cache_read": 3, "cache_creation": 2},
                "output_token_details": {"reasoning": 1},
            }
        },
        Usage(
            input_tokens=9, output_tokens=5, cached_input_tokens=3, cache_creation_input_tokens=2, reasoning_tokens=1
        ),
    ),
    "as OpenAI says it": (
        {"response_metadata": {"token_usage": {"prompt_tokens": 9, "completion_tokens": 5}}},
        Usage(input_tokens=9, output_tokens=5),
    ),
    "as others say it": (
        {"response_metadata": {"usage": {"prompt_tokens": 9}}},
        Usage(input_tokens=9, output_tokens=0),
    ),
    "not at all": ({"response_metadata": {"token_usage": {}}}, None),
}


@pytest.mark.parametrize("case", USAGE)
async def test_usage_is_read_from_the_metadata_of_a_message(case: str) -> None:
    output, usage = USAGE[case]

    assert await chat_reply(AIMessage("a", **output)) == assistant_reply(Text(text="a"), usage=usage)


async def test_usage_of_several_messages_is_summed() -> None:
    cost: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    messages = [AIMessage("a", usage_metadata=cost), AIMessage("b", usage_metadata=cost)]

    assert (await chat_reply(*messages)).usage == Usage(input_tokens=2, output_tokens=4)


@pytest.mark.parametrize(
    ("metadata", "finish"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"finish_reason": "content_filter"}, "content-filter"),
        ({"stop_reason": "refusal"}, "content-filter"),
        ({"finish_reason": "SAFETY"}, "content-filter"),
        ({"finish_reason": "stop"}, "stop"),
        ({"stop_reason": "end_turn"}, "stop"),
        ({}, "stop"),
    ],
    ids=str,
)
async def test_the_finish_reason_is_that_of_the_last_message(metadata: dict[str, Any], finish: str) -> None:
    cut = AIMessage("a", response_metadata={"finish_reason": "length"})

    assert (await chat_reply(cut, AIMessage("b", response_metadata=metadata))).finish == finish


# Ids


async def test_item_ids_are_derived_from_the_message_id() -> None:
    thought = {"type": "thinking", "thinking": "Hm."}
    message = tool_call_message(
        call("f", "c1"), content=[thought, "a", {"type": "tool_use", "id": "c1"}, "b", thought, "c"], id="m1"
    )

    assert lines(await run_chat(message)) == [
        "reasoning rs_m1 of m1",
        "rs_m1 + Hm.",
        "rs_m1 ends",
        "text m1 of m1",
        "m1 + a",
        "m1 ends",
        "call fc_c1 of m1: f",
        "fc_c1 + {}",
        "fc_c1 ends",
        "text m1.2 of m1",
        "m1.2 + b",
        "m1.2 ends",
        "reasoning rs_m1.2 of m1",
        "rs_m1.2 + Hm.",
        "rs_m1.2 ends",
        "text m1.3 of m1",
        "m1.3 + c",
        "m1.3 ends",
        "tool-calls",
    ]


async def test_messages_with_repeated_ids_are_returned_under_new_ids() -> None:
    messages = [tool_call_message(call("f", "c1"), content="a", id="m"), ToolMessage("1", tool_call_id="c1", id="t")]

    assert lines(await run_chat(*messages, *messages)) == [
        "text m of m",
        "m + a",
        "m ends",
        "call fc_c1 of m: f",
        "fc_c1 + {}",
        "fc_c1 ends",
        "result fco_c1: 1",
        "text m.2 of m.2",
        "m.2 + a",
        "m.2 ends",
        "call fc_c1.2 of m.2: f",
        "fc_c1.2 + {}",
        "fc_c1.2 ends",
        "result fco_c1.2: 1",
        "stop",
    ]


async def test_messages_without_ids_stay_separate() -> None:
    run = await run_chat(AIMessage("a"), AIMessage("b"))

    assert reply_of(run) == reply(Message.assistant("a"), Message.assistant("b"))


async def test_a_long_message_id_is_shortened_to_distinct_item_ids() -> None:
    run = await run_chat(AIMessage(["a", {"type": "thinking", "thinking": "Hm."}, "b"], id="x" * 80))
    items = [line.split()[1] for line in lines(run) if line.startswith(("text", "reasoning"))]

    assert [len(item) for item in items] == [53, 53, 53]
    assert len(set(items)) == 3


# History


OLD_ANSWER = Message(role="assistant", parts=(Text(text="Old."),), id="old")


@pytest.mark.parametrize(
    "state",
    [
        [HumanMessage("Well?"), AIMessage("Old."), HumanMessage("Well?"), AIMessage("New.")],
        [HumanMessage("Well?", id="h"), AIMessage("Old.", id="old"), HumanMessage("Well?"), AIMessage("New.")],
        [AIMessage("Old.", id="old"), AIMessage("New.")],
        [HumanMessage("Well?"), AIMessage("New.")],
        [{"role": "user", "content": "Well?"}, AIMessage("New.")],
    ],
    ids=["all of it", "with ids", "by id alone", "its beginning", "mixed with plain ones"],
)
async def test_history_in_the_returned_state_is_not_repeated_in_the_answer(state: list[Any]) -> None:
    for returned in (state, {"messages": state}, {"node": {"messages": state}, "other": None}):

        async def answer(messages: list[Message], value: Any = returned) -> Any:
            return value

        assert reply_of(await run_to_end(chat(answer), QUESTION, OLD_ANSWER, QUESTION)) == assistant_reply("New.")


async def test_an_answer_may_have_the_same_text_as_an_earlier_message() -> None:
    assert await chat_reply(AIMessage("Old.")) == assistant_reply("Old.")
    assert reply_of(await run_chat(AIMessage("Old."), history=(OLD_ANSWER, QUESTION))) == assistant_reply("Old.")

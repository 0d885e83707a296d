"""OpenInference messages, assembled from one attribute per field."""

from typing import Any

from palaver.core.messages import Data, File, Message, Reasoning, Text, ToolCall, ToolResult
from palaver.traces.conventions import openinference
from tests.traces.conventions.convention_cases import read_fields


def fields_of(attributes: dict[str, Any]) -> dict[str, Any]:
    return read_fields(openinference, attributes)


def message_attributes(*messages: dict[str, Any], side: str = "input") -> dict[str, Any]:
    """Return the flattened attributes of messages, each given by its fields below `message.`."""
    return {
        f"llm.{side}_messages.{index}.message.{name}": value
        for index, message in enumerate(messages)
        for name, value in message.items()
    }


CALL = "tool_calls.0.tool_call"


def test_a_conversation_with_tools_is_read() -> None:
    assert fields_of(
        message_attributes(
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Oslo?", "name": "ann"},
            {
                "role": "assistant",
                "content": "",
                f"{CALL}.id": "c1",
                f"{CALL}.function.name": "weather",
                f"{CALL}.function.arguments": '{"city": "Oslo"}',
                "tool_calls.1.tool_call.function.name": "now",
            },
            {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": '{"sky":"grey"}'},
            {"role": "tool", "content": "noon"},
        )
    ) == {
        "messages_in": (
            Message.system("Be brief."),
            Message("user", (Text("Weather in Oslo?"),), name="ann"),
            Message.assistant(ToolCall("c1", "weather", '{"city": "Oslo"}'), ToolCall("call_2", "now")),
            Message("tool", (ToolResult("c1", '{"sky":"grey"}'),), name="weather"),
            Message("tool", (ToolResult("call_2", "noon"),)),
        )
    }


def test_contents_of_several_types_are_read() -> None:
    piece = "contents.{}.message_content.{}".format
    assert fields_of(
        message_attributes(
            {
                "role": "user",
                piece(0, "type"): "text",
                piece(0, "text"): "What is it?",
                piece(1, "type"): "image",
                piece(1, "image.image.url"): "https://pictures.example/1.png",
                piece(2, "type"): "image",
                piece(2, "image.image.url"): "data:image/png;base64,AAAA",
                piece(3, "type"): "text",
                piece(3, "text"): "",
            },
            {
                "role": "assistant",
                piece(0, "type"): "reasoning",
                piece(0, "text"): "A cat?",
                piece(1, "type"): "hologram",
                piece(1, "size"): 3,
                piece(12, "type"): "text",
                piece(12, "text"): "A cat.",
            },
        )
    ) == {
        "messages_in": (
            Message.user(
                "What is it?",
                File("image/*", url="https://pictures.example/1.png"),
                File("image/png", data="AAAA"),
            ),
            Message.assistant(
                Reasoning("A cat?"),
                Data("chat-completions:hologram", {"type": "hologram", "size": 3}),
                "A cat.",
            ),
        )
    }


def test_audio_and_plain_values_in_contents_are_read() -> None:
    piece = "contents.{}.message_content.audio.audio.{}".format

    assert fields_of(
        message_attributes(
            {
                "role": "user",
                piece(0, "url"): "https://sounds.example/1.mp3",
                piece(0, "mime_type"): "audio/mpeg",
                piece(1, "url"): "data:audio/wav;base64,AAAA",
                "contents.2": "Listen.",
                "contents.3": 7,
            }
        )
    ) == {
        "messages_in": (
            Message.user(
                File("audio/mpeg", url="https://sounds.example/1.mp3"),
                File("audio/wav", data="AAAA"),
                "Listen.",
                Data("chat-completions:part", {"type": "part", "value": 7}),
            ),
        )
    }


def test_a_tool_call_in_contents_and_in_tool_calls_is_read_once() -> None:
    contents = {
        "role": "assistant",
        "contents.0.message_content.type": "text",
        "contents.0.message_content.text": "I look.",
        "contents.1.message_content.type": "tool_use",
        "contents.1.tool_call.id": "c1",
        "contents.1.tool_call.function.name": "now",
        "contents.1.tool_call.function.arguments": "{}",
    }
    tool_calls = {f"{CALL}.id": "c1", f"{CALL}.function.name": "now", f"{CALL}.function.arguments": "{}"}
    expected = {"messages_out": (Message.assistant("I look.", ToolCall("c1", "now", "{}")),)}

    assert fields_of(message_attributes(contents, side="output")) == expected
    assert fields_of(message_attributes(contents | tool_calls, side="output")) == expected


def test_legacy_function_calls_and_results_are_read() -> None:
    assert fields_of(
        message_attributes(
            {"role": "assistant", "function_call_name": "now", "function_call_arguments_json": '{"tz":"UTC"}'},
            {"role": "function", "name": "now", "content": "noon"},
            side="output",
        )
    ) == {
        "messages_out": (
            Message.assistant(ToolCall("call_1", "now", '{"tz":"UTC"}')),
            Message("tool", (ToolResult("call_1", "noon"),), name="now"),
        )
    }


def test_generated_call_ids_are_numbered_across_input_and_output() -> None:
    name = f"{CALL}.function.name"

    fields = fields_of(
        message_attributes({"role": "assistant", name: "a"})
        | message_attributes({"role": "assistant", name: "b"}, side="output")
    )

    assert fields == {
        "messages_in": (Message.assistant(ToolCall("call_1", "a")),),
        "messages_out": (Message.assistant(ToolCall("call_2", "b")),),
    }


def test_prompts_and_choices_of_text_completions_become_messages() -> None:
    assert fields_of({"llm.prompts.0.prompt.text": "Once upon", "llm.choices.0.completion.text": "a time"}) == {
        "messages_in": (Message.user("Once upon"),),
        "messages_out": (Message.assistant("a time"),),
    }
    assert fields_of({"llm.prompts": ["Once", "upon"]}) == {"messages_in": (Message.user("Once"), Message.user("upon"))}


def test_messages_take_precedence_over_prompts() -> None:
    attributes = {"llm.prompts.0.prompt.text": "System: …", **message_attributes({"role": "user", "content": "Hi"})}

    assert fields_of(attributes) == {"messages_in": (Message.user("Hi"),)}


def test_index_gaps_are_closed_and_invalid_indices_are_ignored() -> None:
    name = "llm.input_messages.{}.message.content".format
    attributes = {name(9): "b", name(2): "a", name(1234567): "never", name("x"): "never", name(""): "never"}

    assert fields_of(attributes) == {"messages_in": (Message.user("a"), Message.user("b"))}


def test_an_unreadable_entry_becomes_a_data_part() -> None:
    assert fields_of(
        {
            **message_attributes({"role": "user", "content": "Hi"}),
            "llm.input_messages.1.message": 7,
            "llm.input_messages.2.message.content": {"odd": 1},
            "llm.input_messages.2.message.role": ["user"],
        }
    ) == {
        "messages_in": (
            Message.user("Hi"),
            Message.user(Data("unreadable", {"message": 7})),
            Message.user(Data("unreadable", {"role": ["user"], "content": {"odd": 1}})),
        )
    }

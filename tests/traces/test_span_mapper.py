"""From a received span to the record: which convention provides a field, and fields that no attribute can set."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.messages import Message, ToolCall, Usage
from palaver.traces import span_mapper
from palaver.traces.conventions import gen_ai, openinference
from palaver.traces.conventions.attributes import SpanFields
from palaver.traces.model import RawSpan, Span, SpanEvent, SpanException, Tool
from palaver.traces.span_mapper import to_span
from tests.growth import assert_linear

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
START = datetime(2026, 11, 15, 7, 20, 0, 123456, tzinfo=UTC)
ENVELOPE = ("trace_id", "span_id", "start", "attributes", "events", "project")


def text(value: Any) -> str:
    return json.encode(value).decode()


def to_json(value: Any) -> Any:
    return msgspec.json.decode(json.encode(value))


def raw_span(attributes: dict[str, Any], **fields: Any) -> RawSpan:
    return RawSpan(trace_id=TRACE, span_id=SPAN, start=START, attributes=attributes, **fields)


def mapped_fields(attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the fields of the record that the conventions set."""
    span = to_span(raw_span(attributes, **fields), project="default")
    empty = Span(trace_id=TRACE, span_id=SPAN, start=START)
    return {
        name: to_json(value)
        for name in Span.__struct_fields__
        if name not in ENVELOPE and (value := getattr(span, name)) != getattr(empty, name)
    }


def test_a_gen_ai_chat_span_is_mapped_as_documented() -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 200,
        "gen_ai.conversation.id": "s-1",
        "user.id": "u-1",
        "gen_ai.usage.input_tokens": 31,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cost": 0.0002,
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.tool.definitions": text([{"type": "function", "name": "weather", "parameters": {}}]),
        "gen_ai.input.messages": text([{"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo?"}]}]),
        "gen_ai.output.messages": text(
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}],
                }
            ]
        ),
    }
    span = to_span(
        raw_span(attributes, name="chat gpt-4o", duration_ms=812.4, resource={"service.name": "shop"}, scope="my.lib"),
        project="default",
    )

    assert to_json(span) == {
        "trace_id": TRACE,
        "span_id": SPAN,
        "parent_id": None,
        "project": "default",
        "name": "chat gpt-4o",
        "kind": "llm",
        "status": "ok",
        "status_message": "",
        "start": "2026-11-15T07:20:00.123456Z",
        "duration_ms": 812.4,
        "messages_in": [{"role": "user", "parts": [{"type": "text", "text": "Weather in Oslo?"}]}],
        "messages_out": [
            {
                "role": "assistant",
                "parts": [{"type": "tool-call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Oslo"}'}],
            }
        ],
        "inputs": None,
        "outputs": None,
        "parameters": {"temperature": 0.2, "max_tokens": 200},
        "tools": [{"name": "weather", "parameters": {}}],
        "tool": None,
        "usage": {"input_tokens": 31, "output_tokens": 9},
        "cost": 0.0002,
        "cost_source": "reported",
        "model": "gpt-4o-2024-08-06",
        "provider": "openai",
        "finish": "tool-calls",
        "session": "s-1",
        "user": "u-1",
        "workflow": None,
        "run_id": None,
        "exception": None,
        "service": "shop",
        "scope": "my.lib",
        "conventions": ["gen_ai"],
        "attributes": attributes,
        "events": [],
        "links": [],
        "dropped": {},
        "notes": [],
        "redactions": [],
    }


def test_an_openinference_span_is_mapped_as_documented() -> None:
    assert mapped_fields(
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "gpt-4o",
            "llm.invocation_parameters": '{"temperature": 0, "model": "gpt-4o"}',
            "session.id": "s9",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "2+2?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "calc",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"e":"2+2"}',
            "llm.token_count.prompt": 12,
            "llm.token_count.completion": 7,
        }
    ) == {
        "kind": "llm",
        "model": "gpt-4o",
        "parameters": {"temperature": 0},
        "session": "s9",
        "usage": {"input_tokens": 12, "output_tokens": 7},
        "conventions": ["openinference"],
        "messages_in": [{"role": "user", "parts": [{"type": "text", "text": "2+2?"}]}],
        "messages_out": [
            {
                "role": "assistant",
                "parts": [{"type": "tool-call", "call_id": "call_1", "name": "calc", "arguments": '{"e":"2+2"}'}],
            }
        ],
    }


def test_an_ai_sdk_tool_span_is_mapped_as_documented() -> None:
    assert mapped_fields(
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "calc",
            "ai.toolCall.id": "t1",
            "ai.toolCall.args": '{"e":"2+2"}',
            "ai.toolCall.result": "4",
        }
    ) == {
        "kind": "tool",
        "tool": {"name": "calc", "call_id": "t1"},
        "inputs": {"e": "2+2"},
        "outputs": 4,
        "conventions": ["ai-sdk"],
    }


RUN_ATTRIBUTES = {
    "gen_ai.operation.name": "invoke_workflow",
    "gen_ai.workflow.name": "tutor",
    "gen_ai.conversation.id": "s-1",
    "gen_ai.input.messages": text([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]),
    "gen_ai.output.messages": text([{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}]),
    "palaver.run.id": "run_1",
    "palaver.project": "elsewhere",
    "palaver.key": "k1",
    "palaver.inputs": '{"city":"Oslo"}',
    "palaver.parameters": '{"temperature":0.2,"model":"gpt-4o"}',
    "palaver.user": "u-1",
    "palaver.cost": 0.5,
    "palaver.finish": "stop",
}


def test_a_palaver_run_span_is_mapped_and_its_run_id_is_used_only_if_trusted() -> None:
    ours = to_span(raw_span(RUN_ATTRIBUTES), project="default", trusted=True)
    foreign = to_span(raw_span(RUN_ATTRIBUTES), project="default")

    assert (ours.run_id, foreign.run_id) == ("run_1", None)
    assert msgspec.structs.replace(ours, run_id=None) == foreign
    assert mapped_fields(RUN_ATTRIBUTES) == {
        "kind": "workflow",
        "workflow": "tutor",
        "session": "s-1",
        "user": "u-1",
        "messages_in": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}],
        "messages_out": [{"role": "assistant", "parts": [{"type": "text", "text": "hello"}]}],
        "inputs": {"city": "Oslo"},
        "parameters": {"temperature": 0.2, "model": "gpt-4o"},
        "cost": 0.5,
        "cost_source": "reported",
        "finish": "stop",
        "conventions": ["palaver", "gen_ai"],
    }
    assert foreign.project == "default"


@pytest.mark.parametrize(
    ("attributes", "failed", "status"),
    [
        ({}, False, "ok"),
        ({}, True, "error"),
        ({"palaver.finish": "cancelled"}, False, "cancelled"),
        ({"palaver.finish": "cancelled"}, True, "cancelled"),
        ({"palaver.finish": "interrupted"}, False, "incomplete"),
        ({"palaver.finish": "stop"}, False, "ok"),
        ({"palaver.finish": "error"}, True, "error"),
        ({"palaver.finish": ["cancelled"]}, False, "ok"),
    ],
    ids=repr,
)
def test_status_comes_from_the_failed_flag_or_the_finish_of_a_palaver_run(
    attributes: dict[str, Any], failed: bool, status: str
) -> None:
    assert to_span(raw_span(attributes, failed=failed), project="p").status == status


def exception_event(**attributes: Any) -> SpanEvent:
    return SpanEvent("exception", START, {f"exception.{name}": value for name, value in attributes.items()})


@pytest.mark.parametrize(
    ("events", "exception"),
    [
        ((exception_event(type="ValueError", message="no", stacktrace="…"),), SpanException("ValueError", "no")),
        ((exception_event(type="A", message="a"), exception_event(type="B", message="b")), SpanException("B", "b")),
        ((exception_event(type="A", message="a"), exception_event()), SpanException("A", "a")),
        ((exception_event(message="only"),), SpanException("", "only")),
        ((exception_event(type="T", message=7),), SpanException("T", "")),
        ((SpanEvent("other", START, {"exception.type": "A"}),), None),
        ((), None),
    ],
    ids=repr,
)
def test_the_last_exception_is_recorded_and_does_not_change_the_status(
    events: tuple[SpanEvent, ...], exception: SpanException | None
) -> None:
    span = to_span(raw_span({}, events=events), project="p")

    assert (span.exception, span.status, span.events) == (exception, "ok", events)


def test_the_first_convention_with_a_field_sets_it_and_later_ones_fill_gaps() -> None:
    assert mapped_fields(
        {
            "gen_ai.request.model": "a",
            "llm.model_name": "b",
            "llm.provider": "c",
            "gen_ai.usage.input_tokens": 1,
            "llm.token_count.prompt": 2,
            "llm.token_count.completion": 3,
        }
    ) == {
        "model": "a",
        "provider": "c",
        "usage": {"input_tokens": 1, "output_tokens": 3},
        "conventions": ["gen_ai", "openinference"],
    }


def test_span_events_are_read_last_and_even_without_attributes() -> None:
    events = (
        SpanEvent("gen_ai.user.message", None, {"content": "hi"}),
        SpanEvent("gen_ai.choice", None, {"message": "hello", "finish_reason": "stop"}),
    )

    assert mapped_fields({}, events=events) == {
        "kind": "llm",
        "messages_in": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}],
        "messages_out": [{"role": "assistant", "parts": [{"type": "text", "text": "hello"}]}],
        "finish": "stop",
        "conventions": ["events"],
    }
    assert mapped_fields({"gen_ai.prompt": "other"}, events=events)["messages_in"][0]["parts"][0]["text"] == "other"


def test_messages_are_extracted_from_inputs_and_outputs_without_message_attributes() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    span = to_span(
        raw_span(
            {
                "palaver.inputs": text({"messages": [{"role": "user", "content": "hi"}, call]}),
                "palaver.value": text({"choices": [{"message": call}]}),
            }
        ),
        project="p",
    )

    assert span.kind == "llm"
    assert span.messages_in == (Message.user("hi"), Message.assistant(ToolCall("call_1", "f", "{}")))
    assert span.messages_out == (Message.assistant(ToolCall("call_2", "f", "{}")),)


def test_plain_texts_stay_inputs_and_outputs() -> None:
    assert mapped_fields({"palaver.inputs": "hi", "palaver.value": "hello"}) == {
        "inputs": "hi",
        "outputs": "hello",
        "conventions": ["palaver"],
    }


def test_system_instructions_precede_the_messages_of_any_convention() -> None:
    instructions = {"gen_ai.system_instructions": text([{"type": "text", "content": "Be brief."}])}
    system = Message.system("Be brief.")

    def messages(**attributes: Any) -> tuple[Message, ...]:
        return to_span(raw_span({**instructions, **attributes}), project="p").messages_in

    assert messages() == (system,)
    assert messages(**{"gen_ai.prompt": "hi"}) == (system, Message.user("hi"))
    assert messages(**{"palaver.inputs": text({"prompt": [{"role": "user", "content": "hi"}]})}) == (
        system,
        Message.user("hi"),
    )
    turn = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    assert messages(**{"pydantic_ai.all_messages": text(turn)}) == (system, Message.user("hi"))


@pytest.mark.parametrize(
    ("attributes", "resource", "session", "user"),
    [
        ({"session.id": "s", "user.id": "u"}, {}, "s", "u"),
        ({"gen_ai.conversation.id": "c", "session.id": "s", "enduser.id": "e"}, {}, "c", "e"),
        ({"langfuse.session.id": "l", "langfuse.user.id": "m", "llm.user": "n"}, {}, "l", "m"),
        ({"palaver.user": "p", "user.id": "u"}, {}, None, "p"),
        ({"gen_ai.user": "g", "enduser.id": "e"}, {}, None, "e"),
        ({"gen_ai.user": "g"}, {}, None, "g"),
        ({}, {"session.id": "rs", "user.id": 7}, "rs", "7"),
        ({"session.id": "s"}, {"session.id": "rs", "user.id": " "}, "s", None),
        ({"session.id": ["s"], "user.id": {}}, {}, None, None),
    ],
    ids=repr,
)
def test_session_and_user_come_from_the_span_or_else_from_its_resource(
    attributes: dict[str, Any], resource: dict[str, Any], session: str | None, user: str | None
) -> None:
    span = to_span(raw_span(attributes, resource=resource), project="p")

    assert (span.session, span.user) == (session, user)


def test_session_and_user_attributes_alone_add_no_convention() -> None:
    assert mapped_fields({"session.id": "s", "user.id": "u", "langfuse.user.id": "v"}) == {"session": "s", "user": "u"}


def test_the_service_comes_from_the_resource_or_else_from_the_span() -> None:
    assert mapped_fields({"service.name": "span's"}, resource={"service.name": "shop"})["service"] == "shop"
    assert mapped_fields({"service.name": "span's"})["service"] == "span's"
    assert "model" not in mapped_fields({}, resource={"gen_ai.request.model": "never"})


def test_the_tool_is_not_set_on_a_chat_span() -> None:
    attributes = {"gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c"}

    assert to_span(raw_span(attributes), project="p").tool == Tool(name="f", call_id="c")
    assert to_span(raw_span({**attributes, "gen_ai.operation.name": "chat"}), project="p").tool is None


LABEL_ATTRIBUTES = {
    "model": "gen_ai.request.model",
    "provider": "gen_ai.provider.name",
    "session": "session.id",
    "user": "user.id",
    "workflow": "gen_ai.workflow.name",
    "service": "service.name",
}


@pytest.mark.parametrize("field", LABEL_ATTRIBUTES)
def test_a_long_label_is_shortened_to_its_beginning_and_stays_distinct(field: str) -> None:
    def mapped_label(value: str) -> str:
        return mapped_fields({LABEL_ATTRIBUTES[field]: value})[field]

    long = "x" * 9_999
    assert mapped_label(long + "a").startswith("x" * 40)
    assert len(mapped_label(long + "a")) <= 128
    assert mapped_label(long + "a") == mapped_label(f" {long}a ")
    assert mapped_label(long + "a") != mapped_label(long + "b")
    assert mapped_label("x" * 128) == "x" * 128


def test_partial_usage_is_read_and_invalid_numbers_are_noted() -> None:
    attributes = {"gen_ai.usage.cache_read.input_tokens": 3, "gen_ai.usage.input_tokens": -1}
    span = to_span(raw_span(attributes, notes=("clock",)), project="p")

    assert span.usage == Usage(0, 0, cached_input_tokens=3)
    assert span.notes == ("clock", "number:gen_ai.usage.input_tokens")


def test_a_failing_convention_is_noted_and_the_others_still_set_their_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: RawSpan) -> SpanFields:
        raise RecursionError

    monkeypatch.setattr(gen_ai, "read_fields", read)

    assert mapped_fields({"gen_ai.request.model": "a", "llm.provider": "c", "palaver.cost": 1}) == {
        "provider": "c",
        "cost": 1.0,
        "cost_source": "reported",
        "conventions": ["palaver", "openinference"],
        "notes": ["unmapped:gen_ai"],
    }


def test_messages_that_cannot_be_assembled_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError

    monkeypatch.setattr(span_mapper, "assign_call_ids", fail)

    assert mapped_fields({"gen_ai.prompt": "hi"}) == {"conventions": ["gen_ai"], "notes": ["unmapped:messages"]}


def test_only_conventions_with_matching_attributes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read_spans: list[RawSpan] = []
    monkeypatch.setattr(openinference, "read_fields", lambda raw: read_spans.append(raw) or SpanFields())

    mapped_fields({"http.route": "/"})
    assert read_spans == []
    mapped_fields({"llm.model_name": "a"})
    assert len(read_spans) == 1


# Hostile attributes

HOSTILE_ATTRIBUTES: dict[str, Any] = {
    "__proto__": "x",
    "constructor": {"prototype": {"polluted": True}},
    "__class__": "y",
    "a" + ".a" * 1000: 1,
    "length": -1,
    "..": "z",
    "a..b": "",
    "": "nameless",
    "'; DROP TABLE spans; --": "${jndi:x} {0.__class__} %s",
    "gen_ai.request.__proto__": {"polluted": True},
    "gen_ai.request.constructor": "c",
    "llm.input_messages.__proto__.message.role": "user",
    "llm.input_messages.99999999999.message.role": "user",
    "gen_ai.prompt.-1.role": "user",
    "ag.data.inputs.__proto__": 1,
}


def test_hostile_attribute_names_are_inert_and_stay_unchanged() -> None:
    before = json.encode(HOSTILE_ATTRIBUTES)
    span = to_span(raw_span(HOSTILE_ATTRIBUTES), project="p")

    assert span.attributes == HOSTILE_ATTRIBUTES
    assert json.encode(HOSTILE_ATTRIBUTES) == before
    assert span.parameters == {"__proto__": {"polluted": True}, "constructor": "c"}
    assert (span.messages_in, span.messages_out, span.project) == ((), (), "p")


LARGE_SPANS: dict[str, Callable[[int], dict[str, Any]]] = {
    "names": lambda count: {f"name.{number}": number for number in range(count)},
    "messages": lambda count: {f"llm.input_messages.{number}.message.role": "user" for number in range(count)},
    "calls": lambda count: {
        f"llm.input_messages.0.message.tool_calls.{number}.tool_call.id": "x" for number in range(count)
    },
    "prompts": lambda count: {f"gen_ai.prompt.{number}.content": "x" for number in range(count)},
    "parameters": lambda count: {f"gen_ai.request.{number}": "[" for number in range(count)},
    "inputs": lambda count: {f"ag.data.inputs.{number}": "@ag.type=json:{" for number in range(count)},
    "dots": lambda count: {"x." * (count - number): number for number in range(10)},
    "brackets": lambda count: {"gen_ai.input.messages": "[" * 10 * count},
    "unreadable": lambda count: {"gen_ai.input.messages": "[" + ",".join(["1"] * 2 * count) + "]"},
    "unnamed": lambda count: {
        "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "tool_call", "name": "f"}] * (count // 2)}]
    },
}


@pytest.mark.parametrize("shape", LARGE_SPANS)
def test_mapping_time_is_linear_in_the_size_of_the_span(shape: str) -> None:
    def map_span(attributes: dict[str, Any]) -> None:
        assert to_span(raw_span(attributes), project="p").attributes is attributes

    assert_linear(map_span, LARGE_SPANS[shape], 100_000)


SAMPLE_TEXTS = ["[{}]", '[{"role":"user"}]', '{"messages":[{"role":"user","content":"x"}]}', "[" * 99, "user", "chat"]
KEYS = ["role", "content", "parts", "type", "messages", "name", "x"]
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
ANY_VALUE = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=9) | st.sampled_from(SAMPLE_TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(max_size=9) | st.sampled_from(
    [
        *HOSTILE_ATTRIBUTES,
        *RUN_ATTRIBUTES,
        "gen_ai.tool.definitions",
        "gen_ai.tool.name",
        "gen_ai.usage.input_tokens",
        "gen_ai.system_instructions",
        "pydantic_ai.all_messages",
        "pydantic_ai.new_message_index",
        "events",
        "openinference.span.kind",
        "input.value",
        "output.value",
        "llm.input_messages.0.message.role",
        "llm.invocation_parameters",
        "ai.operationId",
        "ai.prompt",
        "ai.prompt.messages",
        "ai.response.toolCalls",
        "ag.data.inputs",
        "ag.data.outputs",
        "mlflow.spanInputs",
        "mlflow.spanType",
        "traceloop.entity.input",
        "gen_ai.prompt.0.content",
        "gen_ai.completion.0.tool_calls.0.name",
        "session.id",
        "service.name",
    ]
)
ANY_ATTRIBUTES = st.dictionaries(NAMES, ANY_VALUE, max_size=10)
EVENTS = st.lists(
    st.builds(
        SpanEvent,
        st.sampled_from(["exception", "gen_ai.user.message", "gen_ai.choice", "x"]),
        st.none(),
        st.dictionaries(st.sampled_from(["content", "message", "exception.type", "exception.message"]), ANY_VALUE),
    ),
    max_size=3,
).map(tuple)


@given(ANY_ATTRIBUTES, ANY_ATTRIBUTES, EVENTS, st.booleans())
def test_any_span_is_mapped_to_a_record_that_survives_encoding(
    attributes: dict[str, Any], resource: dict[str, Any], events: tuple[SpanEvent, ...], trusted: bool
) -> None:
    raw = raw_span(attributes, resource=resource, events=events, notes=("clock",), dropped={"bytes": 1}, scope="lib")
    before = msgspec.json.encode(raw)

    span = to_span(raw, project="mine", trusted=trusted)

    assert msgspec.json.encode(raw) == before
    assert msgspec.json.decode(msgspec.json.encode(span), type=Span) == span
    assert not [note for note in span.notes if note.startswith("unmapped:")]
    assert (span.project, span.attributes, span.events) == ("mine", attributes, events)
    assert (span.trace_id, span.span_id, span.parent_id, span.start) == (TRACE, SPAN, None, START)
    assert (span.scope, span.dropped, span.notes[0], "model" in span.parameters) == (
        "lib",
        {"bytes": 1},
        "clock",
        False,
    )
    assert trusted or span.run_id is None

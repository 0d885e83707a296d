"""The two forms of an Agenta request body: flat, and an envelope with `data`."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.messages import Message
from palaver.errors import (
    ConflictingFields,
    FaultyCall,
    InvalidBody,
    InvalidJson,
    InvalidMessages,
    InvalidSessionId,
    MisplacedField,
    MissingInput,
    RequestError,
    UnsupportedFlag,
)
from palaver.protocols.agenta.request import CallBody, parse_body, parse_history, parse_object
from palaver.protocols.base import HttpRequest

MESSAGES = [{"role": "user", "content": "Why?"}]
OTHER_MESSAGES = [{"role": "user", "content": "How?"}]


def parse(body: dict[str, Any], *, is_chat: bool = True, **headers: Any) -> CallBody:
    return parse_body(body, {name.replace("_", "-"): value for name, value in headers.items()}, is_chat=is_chat)


def test_envelope_is_parsed_from_data() -> None:
    body = {
        "session_id": "s-1",
        "flags": {"stream": False},
        "references": {"application": {"slug": "tutor"}},
        "data": {"inputs": {"messages": MESSAGES, "subject": "physics"}, "parameters": {"temperature": 0}},
    }

    assert parse(body) == CallBody(
        envelope=True,
        messages=MESSAGES,
        inputs={"subject": "physics"},
        parameters={"temperature": 0},
        flags={"stream": False},
        session="s-1",
        references={"references": {"application": {"slug": "tutor"}}},
        tags={},
        places={
            "/inputs": "/data/inputs",
            "/parameters": "/data/parameters",
            "/messages": "/data/inputs/messages",
            "/inputs/subject": "/data/inputs/subject",
        },
        strays={},
    )


def test_flat_body_is_parsed_from_the_root() -> None:
    body = {"messages": MESSAGES, "inputs": {"subject": "physics"}, "ag_config": {"temperature": 0}, "text": "?"}

    assert parse(body) == CallBody(
        envelope=False,
        messages=MESSAGES,
        inputs={"subject": "physics"},
        parameters={"temperature": 0},
        flags={},
        session=None,
        references={},
        tags={},
        places={
            "/inputs": "/inputs",
            "/parameters": "/ag_config",
            "/messages": "/messages",
            "/inputs/subject": "/inputs/subject",
        },
        strays={"text": "/text"},
    )


@pytest.mark.parametrize(
    ("body", "messages", "pointer"),
    [
        pytest.param({"messages": MESSAGES}, MESSAGES, "/messages", id="flat, at the root"),
        pytest.param({"inputs": {"messages": MESSAGES}}, MESSAGES, "/inputs/messages", id="flat, in inputs"),
        pytest.param({"data": {"inputs": {"messages": []}}}, [], "/data/inputs/messages", id="envelope, in data"),
        pytest.param({"data": {}, "messages": MESSAGES}, MESSAGES, "/messages", id="envelope, at the root"),
        pytest.param(
            {"data": {}, "inputs": {"messages": MESSAGES}}, MESSAGES, "/inputs/messages", id="envelope, inputs"
        ),
        pytest.param(
            {"messages": None, "inputs": {"messages": MESSAGES}}, MESSAGES, "/inputs/messages", id="null root"
        ),
        pytest.param({"messages": MESSAGES, "inputs": {"messages": None}}, MESSAGES, "/messages", id="null in inputs"),
        pytest.param(
            {"messages": MESSAGES, "inputs": {"messages": MESSAGES}}, MESSAGES, "/inputs/messages", id="twice"
        ),
        pytest.param({}, None, "/messages", id="flat, absent"),
        pytest.param({"data": {"inputs": None}}, None, "/data/inputs/messages", id="envelope, absent"),
    ],
)
def test_history_is_found_at_every_allowed_path(body: dict[str, Any], messages: Any, pointer: str) -> None:
    form = parse(body)

    assert (form.messages, form.inputs, form.places["/messages"]) == (messages, {}, pointer)


@pytest.mark.parametrize(
    ("body", "inputs", "parameters"),
    [
        pytest.param({"inputs": {"a": 1}, "data": {"inputs": {"b": 2}}}, {"b": 2, "a": 1}, {}, id="joined key by key"),
        pytest.param({"inputs": {"a": 1}, "data": {"inputs": {"a": 1.0}}}, {"a": 1.0}, {}, id="the same number"),
        pytest.param({"inputs": {}, "data": {"inputs": {"a": None}}}, {"a": None}, {}, id="a null inside is a value"),
        pytest.param({"inputs": None, "parameters": None, "ag_config": None}, {}, {}, id="null is absent"),
        pytest.param({"parameters": {"t": 0}, "ag_config": {"t": 0}}, {}, {"t": 0}, id="the same parameters"),
        pytest.param({"parameters": {"t": 0}, "ag_config": None}, {}, {"t": 0}, id="one of them null"),
        pytest.param(
            {"data": {"parameters": {"t": 0}}, "parameters": {"t": 0}}, {}, {"t": 0}, id="also in an envelope"
        ),
    ],
)
def test_inputs_and_parameters_are_merged_from_all_paths(body: Any, inputs: Any, parameters: Any) -> None:
    form = parse(body)

    assert (form.inputs, form.parameters) == (inputs, parameters)


@pytest.mark.parametrize(
    ("body", "first", "second"),
    [
        pytest.param(
            {"messages": OTHER_MESSAGES, "inputs": {"messages": MESSAGES}},
            "/inputs/messages",
            "/messages",
            id="history",
        ),
        pytest.param(
            {"messages": OTHER_MESSAGES, "data": {"inputs": {"messages": []}}},
            "/data/inputs/messages",
            "/messages",
            id="[]",
        ),
        pytest.param({"inputs": {"a": 1}, "data": {"inputs": {"a": 2}}}, "/data/inputs/a", "/inputs/a", id="an input"),
        pytest.param(
            {"inputs": {"a/b~c": 1}, "data": {"inputs": {"a/b~c": 2}}},
            "/data/inputs/a~1b~0c",
            "/inputs/a~1b~0c",
            id="an input whose name needs an escape",
        ),
        pytest.param(
            {"inputs": {"a": 1}, "data": {"inputs": {"a": True}}}, "/data/inputs/a", "/inputs/a", id="true, 1"
        ),
        pytest.param(
            {"inputs": {"a": [{"b": 0}]}, "data": {"inputs": {"a": [{"b": False}]}}},
            "/data/inputs/a",
            "/inputs/a",
            id="false and 0, deep inside",
        ),
        pytest.param(
            {"inputs": {"a": [1]}, "data": {"inputs": {"a": [1, 1]}}}, "/data/inputs/a", "/inputs/a", id="longer"
        ),
        pytest.param({"parameters": {"t": 0}, "ag_config": {}}, "/parameters", "/ag_config", id="{} is a value"),
        pytest.param(
            {"data": {"parameters": {"t": 0}}, "parameters": {"t": 1}},
            "/data/parameters",
            "/parameters",
            id="parameters",
        ),
    ],
)
def test_conflicting_values_are_rejected_with_both_pointers(body: Any, first: str, second: str) -> None:
    with pytest.raises(ConflictingFields) as refused:
        parse(body)

    assert refused.value.message == f"{first} and {second} have different values. Send only one of them."
    assert refused.value.pointer == second


def test_messages_is_an_ordinary_input_of_a_non_chat_workflow() -> None:
    form = parse({"data": {"inputs": {"messages": None, "a/b": 1}}}, is_chat=False)

    assert (form.messages, form.inputs) == (None, {"messages": None, "a/b": 1})
    assert form.places["/inputs/messages"] == "/data/inputs/messages"
    assert form.places["/inputs/a~1b"] == "/data/inputs/a~1b"


def test_root_messages_are_an_input_of_a_non_chat_workflow() -> None:
    assert parse({"messages": "any", "inputs": {"a": 1}}, is_chat=False).inputs == {"a": 1, "messages": "any"}


@pytest.mark.parametrize(
    ("body", "error", "pointer", "message"),
    [
        pytest.param({"data": []}, InvalidBody, "/data", "data must be an object, not a list.", id="data"),
        pytest.param({"data": None}, InvalidBody, "/data", "data must be an object, not null.", id="null data"),
        pytest.param({"inputs": "x"}, InvalidBody, "/inputs", "inputs must be an object, not a string.", id="inputs"),
        pytest.param(
            {"data": {"inputs": 1}},
            InvalidBody,
            "/data/inputs",
            "inputs must be an object, not a number.",
            id="in data",
        ),
        pytest.param(
            {"ag_config": True},
            InvalidBody,
            "/ag_config",
            "ag_config must be an object, not a boolean.",
            id="ag_config",
        ),
        pytest.param({"flags": []}, InvalidBody, "/flags", "flags must be an object, not a list.", id="flags"),
        pytest.param(
            {"flags": {"stream": "yes"}},
            InvalidBody,
            "/flags/stream",
            "flags.stream must be true or false.",
            id="stream",
        ),
        pytest.param(
            {"flags": {"trim": 1}}, InvalidBody, "/flags/trim", "flags.trim must be true or false.", id="trim"
        ),
        pytest.param(
            {"flags": {"force": True}},
            UnsupportedFlag,
            "/flags/force",
            "flags.force is not supported. Omit it.",
            id="force",
        ),
        pytest.param(
            {"data": {"messages": []}},
            MisplacedField,
            "/data/messages",
            "messages belongs in data.inputs.",
            id="misplaced",
        ),
        pytest.param(
            {"session_id": "a b"},
            InvalidSessionId,
            "/session_id",
            "session_id must be 1 to 128 letters, digits, '.', '_', ':' or '-'.",
            id="session",
        ),
    ],
)
def test_invalid_field_is_rejected_with_pointer_and_message(
    body: Any, error: type[RequestError], pointer: str, message: str
) -> None:
    with pytest.raises(error) as refused:
        parse(body)

    assert (refused.value.pointer, refused.value.message) == (pointer, message)


def test_other_flags_are_accepted_unchecked() -> None:
    flags = {"is_chat": False, "resolve": "?", "force": False, "mine": 1}

    assert parse({"flags": flags}).flags == flags


@pytest.mark.parametrize(
    ("body", "headers", "session"),
    [
        pytest.param({}, {}, None, id="none"),
        pytest.param(
            {"session_id": "a.b:c_d-9"}, {"x_ag_session_id": "h", "baggage": "ag.session.id=b"}, "a.b:c_d-9", id="body"
        ),
        pytest.param({"session_id": None}, {"x_ag_session_id": "h", "baggage": "ag.session.id=b"}, "h", id="header"),
        pytest.param({}, {"baggage": "a=1, ag.session.id = b%3A1 ;p=2, c=3"}, "b:1", id="baggage"),
        pytest.param({}, {"baggage": "a=1,ag.session.identity=2"}, None, id="other baggage"),
        pytest.param({"session_id": "s" * 128}, {}, "s" * 128, id="the longest"),
    ],
)
def test_the_session_comes_from_the_body_else_a_header_else_baggage(
    body: Any, headers: dict[str, Any], session: str | None
) -> None:
    assert parse(body, **headers).session == session


@pytest.mark.parametrize(
    ("body", "headers", "location"),
    [
        pytest.param({"session_id": ""}, {}, "session_id", id="empty"),
        pytest.param({"session_id": 7}, {}, "session_id", id="a number"),
        pytest.param({"session_id": "s" * 129}, {}, "session_id", id="too long"),
        pytest.param({"session_id": "é"}, {"x_ag_session_id": "good"}, "session_id", id="letters beyond ASCII"),
        pytest.param({"session_id": "a\n"}, {}, "session_id", id="a line end"),
        pytest.param({}, {"x_ag_session_id": "a b"}, "The header x-ag-session-id", id="header"),
        pytest.param({}, {"baggage": "ag.session.id="}, "ag.session.id in the baggage header", id="baggage"),
    ],
)
def test_invalid_session_id_is_rejected(body: Any, headers: dict[str, Any], location: str) -> None:
    with pytest.raises(InvalidSessionId) as refused:
        parse(body, **headers)

    assert refused.value.message == f"{location} must be 1 to 128 letters, digits, '.', '_', ':' or '-'."


def test_references_are_read_from_the_root_and_from_data() -> None:
    at_root = {"references": {"a": 1}, "links": [], "selector": {"s": 1}, "meta": {"m": 1}}
    in_data = {"revision": {"r": 1}, "testcase": {"t": 1}, "trace": {"x": 1}, "outputs": {"o": 1}}

    assert parse({**at_root, "data": in_data}).references == {**at_root, **in_data}
    assert parse({**at_root, **in_data}).references == {**at_root, **in_data}


def test_envelope_ignores_data_fields_at_the_root() -> None:
    form = parse({"data": {"revision": {"r": 1}}, "revision": {"r": 2}, "outputs": 3, "references": None})

    assert (form.references, form.strays) == (
        {"revision": {"r": 1}, "references": None},
        {"revision": "/revision", "outputs": "/outputs"},
    )


@pytest.mark.parametrize(
    ("tags", "expected"), [({"a": 1}, {"a": 1}), (None, {}), (["a"], {"tags": ["a"]})], ids=["object", "null", "list"]
)
def test_tags_are_stored_as_an_object(tags: Any, expected: Any) -> None:
    assert parse({"tags": tags}).tags == expected


def test_secrets_and_credentials_are_dropped_while_parsing() -> None:
    hidden = {"secrets": {"k": "hunter2"}, "credentials": "hunter2"}

    for body in ({**hidden, "messages": []}, {**hidden, "data": hidden}):
        assert "hunter2" not in repr(parse(body))


def test_unknown_keys_are_recorded_as_pointer_segments() -> None:
    assert parse({"a/b": 1, "version": "x", "secrets": 1, "text": ""}).strays == {"a~1b": "/a~1b", "text": "/text"}


# The history


def test_history_is_parsed_in_any_known_dialect() -> None:
    messages_with_parts = [{"role": "user", "parts": [{"type": "text", "text": "Why?"}]}]

    assert parse_history(parse({"messages": MESSAGES})) == (Message.user("Why?"),)
    assert parse_history(parse({"messages": MESSAGES[0]})) == (Message.user("Why?"),)
    assert parse_history(parse({"messages": messages_with_parts})) == (Message.user("Why?"),)
    assert parse_history(parse({"messages": []})) == ()


@pytest.mark.parametrize(
    ("messages", "pointer", "message"),
    [
        pytest.param("hi", "/messages", "The message history is not a list of messages.", id="text"),
        pytest.param(7, "/messages", "The message history is not a list of messages.", id="a number"),
        pytest.param({"a": 1}, "/messages", "The message history is not a list of messages.", id="an object"),
        pytest.param([*MESSAGES, "hi"], "/messages/1", "Message 1 is not an object.", id="a bad element"),
        pytest.param([{"content": "x"}], "/messages/0", "Message 0 has no role.", id="no role"),
    ],
)
def test_invalid_history_is_rejected_at_its_first_bad_element(messages: Any, pointer: str, message: str) -> None:
    with pytest.raises(FaultyCall) as refused:
        parse_history(parse({"messages": messages}))

    (fault,) = refused.value.faults
    assert (type(fault), fault.pointer, fault.message) == (InvalidMessages, pointer, message)


def test_absent_history_is_a_missing_input() -> None:
    with pytest.raises(FaultyCall) as refused:
        parse_history(parse({"messages": None}))

    (fault,) = refused.value.faults
    assert (type(fault), fault.pointer) == (MissingInput, "/messages")


# Bodies


@pytest.mark.parametrize(
    ("body", "type_name"),
    [(b"[]", "a list"), (b"null", "null"), (b'"x"', "a string"), (b"7", "a number"), (b"true", "a boolean")],
)
def test_body_that_is_not_an_object_is_rejected(body: bytes, type_name: str) -> None:
    with pytest.raises(InvalidBody) as refused:
        parse_object(HttpRequest(body=body))

    assert (refused.value.message, refused.value.pointer) == (f"The body must be a JSON object, not {type_name}.", "")


def test_body_must_be_valid_json_within_the_depth_limit() -> None:
    with pytest.raises(InvalidJson):
        parse_object(HttpRequest(body=b"{"))
    with pytest.raises(RequestError):
        parse_object(HttpRequest(body=b'{"a":[[1]]}', json_limits=json.JsonLimits(depth=2)))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "messages", "a/b", "~", ""]) | st.text(max_size=3), inner, max_size=3
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    "data messages inputs parameters ag_config flags session_id tags references meta revision secrets x".split()
)
OBJECTS = st.dictionaries(KEYS | st.text(max_size=3), VALUES, max_size=6)
BODIES = OBJECTS | st.builds(lambda data, rest: {**rest, "data": data}, OBJECTS, OBJECTS)


@given(body=BODIES, is_chat=st.booleans(), session=st.none() | st.text(), baggage=st.text())
def test_any_object_is_parsed_or_raises_a_request_error(
    body: Any, is_chat: bool, session: str | None, baggage: str
) -> None:
    headers = {"baggage": baggage} | ({} if session is None else {"x-ag-session-id": session})
    try:
        form = parse_body(parse_object(HttpRequest(body=msgspec.json.encode(body))), headers, is_chat=is_chat)
        messages = parse_history(form) if is_chat else ()
    except RequestError:
        return
    assert form.envelope == ("data" in body)
    assert all(isinstance(message, Message) for message in messages)
    assert form.places.keys() >= {"/inputs", "/messages", "/parameters"}

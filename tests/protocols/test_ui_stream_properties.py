"""Properties of UI message streams: order, steps, and a message equal to the fold of the same events."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from palaver.core.dialects import ui_message
from palaver.core.events import Event, RunFailed, RunFinished, RunStarted, TerminalEvent, ToolReturned, ToolStarted
from palaver.core.fold import fold
from palaver.core.grammar import Grammar
from palaver.core.messages import Data, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.errors import BadStream
from palaver.protocols.sse import EventStreamDecoder
from palaver.protocols.ui_stream import adapter
from palaver.protocols.ui_stream.adapter import UIPart as UiPart
from palaver.protocols.ui_stream.adapter import UIStreamEncoder
from palaver.protocols.ui_stream.request import UIRequest
from tests.core.strategies import RUN, hostile, sloppy, terminals

HISTORY_CALLS = {"h1": ToolCall(call_id="h1", name="now"), "h2": ToolCall(call_id="h2", name="now", arguments="{")}
HISTORY = [Message.assistant(*HISTORY_CALLS.values())]

clients = st.builds(
    UIRequest,
    version=st.sampled_from([5, 6, 7]),
    message=st.none() | st.just("m7"),
    shown=st.sampled_from([{}, {"h1": True}, {"h1": False, "h2": True}, {"c1": True, "c2": False}]),
    waiting=st.just(HISTORY_CALLS),
    tools=st.sampled_from([frozenset[str](), frozenset({"now"})]),
)
approval_requests = st.builds(
    lambda call_id: Data(name="approval-request", value={"id": f"ask {call_id}", "call_id": call_id}),
    st.sampled_from(["c1", "c2", "h1", "nobody", None]),
)
REPEATED_APPROVAL = Data(name="approval-request", value={"id": "ask", "call_id": "h1"})
history_results = st.sampled_from(
    [ToolResult(call_id="h1", output=1), ToolResult(call_id="h2", output="no", is_error=True)]
)
parallel_calls = [ToolCall(call_id=f"p{number}", name="now") for number in range(3)]
shuffled_results = st.permutations(
    [*(ToolResult(call_id=call.call_id) for call in parallel_calls), "Wait.", Text(text="Done.")]
)
parallel_runs = shuffled_results.map(lambda given: [*parallel_calls, *given])
"""Parallel calls, with text between their results."""
mixed_runs = st.lists(sloppy | st.lists(approval_requests | history_results, min_size=1, max_size=1), max_size=4).map(
    lambda chunks: [*chain(*chunks)]
)
producers: st.SearchStrategy[list[Any]] = st.one_of(sloppy, hostile, mixed_runs, parallel_runs)


def events_of(values: Sequence[Any], end: TerminalEvent | None = None) -> list[Event]:
    """Return the events that the engine emits for a producer that yields these values."""
    grammar = Grammar(RUN, history=HISTORY)
    events: list[Event] = [*grammar.start(RunStarted(run_id=RUN, session="s-1"))]
    try:
        for value in values:
            events += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    except BadStream as error:
        end = RunFailed(code=error.code, message=error.message)
    return [*events, *grammar.end(end or grammar.ending or RunFinished())]


def encode_parts(events: Sequence[Event], client: UIRequest) -> list[UiPart]:
    """Encode the events and decode the frames to parts."""
    reader, writer = EventStreamDecoder(max_bytes=2**30), UIStreamEncoder(client)
    *frames, finished = [data for event in events for data in reader.feed(writer.encode(event))]
    assert finished == b"[DONE]"
    return [msgspec.json.decode(frame) for frame in frames]


class StrictClient:
    """A client like AI SDK 5 to 7 that asserts every rule of the stream."""

    def __init__(self, client: UIRequest) -> None:
        self.started = self.ended = False
        self.open: dict[str, list[str]] = {}
        self.used: set[str] = set()
        self.kinds: dict[str, str] = {}
        self.texts: list[tuple[str, list[str]]] = []
        self.step: set[str] = set()
        """The calls of this step."""
        self.calls: dict[str, UiPart] = {}
        """All calls, with their inputs and results."""
        self.pieces: dict[str, str] = {}
        self.shown = dict.fromkeys(client.shown, False)
        self.answered = client.shown.keys() - client.waiting.keys()
        self.data: list[UiPart] = []
        self.version = client.version

    def take(self, part: UiPart) -> None:
        assert not self.ended, "nothing comes after the end"
        assert self.started or part["type"] == "start", "the start comes first"
        match part["type"]:
            case "start":
                assert not self.started
                self.started = True
            case "start-step":
                self.step = set()
            case "finish-step":
                assert not self.open, "open parts are ended before their step"
            case "finish":
                self.ended = True
            case "abort":
                assert not self.open, "open parts are ended before the abort"
                self.ended = True
            case "error":
                assert not self.open, "open parts are ended before the error"
            case str(kind) if kind.startswith(("text-", "reasoning-")):
                output, verb = kind.split("-")
                self._text(output, verb, part)
            case str(kind) if kind.startswith("tool-"):
                self._tool(kind, part)
            case str(kind) if kind.startswith(("data-", "source-")) or kind == "file":
                assert part.get("transient") is True or "id" in part or not kind.startswith("data-")
                self.data += [part] if "transient" not in part else []
            case kind:
                raise AssertionError(f"{kind} is no part that every client knows")

    def _text(self, kind: str, verb: str, part: UiPart) -> None:
        if verb == "start":
            assert part["id"] not in self.used, "no id comes twice"
            self.used.add(part["id"])
            self.open[part["id"]] = []
            self.kinds[part["id"]] = kind
            refused = "palaver" in part.get("providerMetadata", {})
            self.texts.append(("refusal" if refused else kind, self.open[part["id"]]))
        elif verb == "delta":
            assert self.kinds[part["id"]] == kind
            self.open[part["id"]].append(part["delta"])
        else:
            assert self.kinds[part["id"]] == kind
            del self.open[part["id"]]

    def _tool(self, kind: str, part: UiPart) -> None:
        call_id = part["toolCallId"]
        match kind:
            case "tool-input-start":
                assert call_id not in self.calls.keys() | self.answered, "no id is two calls'"
                self.calls[call_id] = {}
                self.pieces[call_id] = ""
                self.step.add(call_id)
            case "tool-input-delta":
                assert "toolName" not in self.calls[call_id], "its input is not whole yet"
                self.pieces[call_id] += part["inputTextDelta"]
            case "tool-input-available" | "tool-input-error":
                self.calls.setdefault(call_id, {})
                self.step.add(call_id)
                assert part["dynamic"] is True
                self.calls[call_id] |= {"toolName": part["toolName"], "input": part["input"]}
            case "tool-approval-request":
                assert self.version >= 6
                assert call_id in self.shown or "result" not in self.calls[call_id]
            case _:
                if call_id in self.calls:
                    assert call_id in self.step, "a result stands in the step of its call"
                else:
                    assert call_id in self.shown, "the client knows the call"
                    self.calls[call_id] = {}
                assert part["providerExecuted"] is True
                failed = kind == "tool-output-error"
                self.calls[call_id]["result"] = part["errorText"] if failed else part["output"], failed


def folded_characters(events: Sequence[Event], kind: type[Text | Reasoning | Refusal]) -> list[str]:
    """Return the sorted characters of the fold's parts of that kind: a client orders interleaved parts differently."""
    parts: list[Part] = [part for message in fold(events).messages for part in message.parts]
    return sorted(char for part in parts if isinstance(part, kind) for char in part.text)


@given(producers, clients)
@example([ToolResult(call_id="h2", output=1), ToolCall(call_id="h2", name="now")], UIRequest(waiting=HISTORY_CALLS))
@example([REPEATED_APPROVAL, ToolCall(call_id="h1", name="now")], UIRequest(waiting=HISTORY_CALLS))
@example([ToolCall(call_id="c1", name="now"), ToolResult(call_id="c1", output=1)], UIRequest(shown={"c1": True}))
def test_stream_parts_are_in_order_and_match_the_fold_of_the_events(values: Sequence[Any], client: UIRequest) -> None:
    _check(events_of(values), client)


@given(producers, terminals, clients)
def test_stream_parts_match_the_fold_for_any_terminal_event(
    values: Sequence[Any], end: TerminalEvent, client: UIRequest
) -> None:
    _check(events_of(values, end), client)


def _check(events: Sequence[Event], client: UIRequest) -> None:
    reader = StrictClient(client)
    parts = encode_parts(events, client)
    for part in parts:
        reader.take(part)

    assert reader.ended
    assert [part["type"] for part in parts[:2]] == ["start", "start-step"]
    # Texts, except those of the output value, which is not a message.
    value_text_ids = {part["id"] for part in parts if part["type"] == "text-start" and part["id"].endswith("_output")}
    streamed_chars = [(kind, char) for kind, pieces in reader.texts for char in "".join(pieces)]
    for kind, part_type in (("text", Text), ("reasoning", Reasoning), ("refusal", Refusal)):
        if not (kind == "text" and value_text_ids):
            assert sorted(char for texts, char in streamed_chars if texts == kind) == folded_characters(
                events, part_type
            )
    # Calls and their results.
    messages = fold(events).messages
    calls = {call.call_id: call for message in messages for call in message.tool_calls}
    results = {one.call_id: one for message in messages for one in message.tool_results}
    output = dict(
        zip((event.call_id for event in events if isinstance(event, ToolStarted)), reader.pieces, strict=True)
    )
    assert {name: reader.calls[name]["input"] for name in reader.pieces} == {
        output[call_id]: call.parsed for call_id, call in calls.items()
    }
    assert reader.pieces == {output[call_id]: call.arguments for call_id, call in calls.items()}
    answers = {
        call_id if _answers_history_call(call_id, events) else output[call_id]: (_output_text(one), one.is_error)
        for call_id, one in results.items()
    }
    assert {name: call["result"] for name, call in reader.calls.items() if "result" in call} == answers


def _answers_history_call(call_id: str, events: Sequence[Event]) -> bool:
    """Return whether the run answers a call of the history before it makes one with that id."""
    kinds = [type(event) for event in events if getattr(event, "call_id", None) == call_id]
    return kinds[0] is ToolReturned


def _output_text(result: ToolResult) -> Any:
    if not result.is_error or isinstance(result.output, str):
        return result.output
    return msgspec.json.encode(result.output).decode()


@given(producers, terminals, clients)
def test_encoded_message_equals_the_message_joined_from_the_stream_parts(
    values: Sequence[Any], end: TerminalEvent, client: UIRequest
) -> None:
    events = events_of(values, end)
    new_client = msgspec.structs.replace(client, message=None, shown={})

    assert adapter.encode_ui_message(events, client) == adapter.join_ui_parts(encode_parts(events, new_client))


@given(producers, clients)
def test_delaying_the_start_part_does_not_change_the_streamed_bytes(values: Sequence[Any], client: UIRequest) -> None:
    events = events_of(values)
    encoder, delayed = UIStreamEncoder(client), UIStreamEncoder(client, start_at_once=False)

    assert b"".join(map(encoder.encode, events)) == b"".join(map(delayed.encode, events))


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3), st.integers(0, 2))
def test_encoded_ui_message_is_parsed_back_to_the_same_messages(texts: list[str], rounds: int) -> None:
    values: list[Any] = []
    for number in range(rounds):
        values += [texts[0], ToolCall(call_id=f"c{number}", name="now", arguments="{}")]
        values.append(ToolResult(call_id=f"c{number}", output={"n": number}))
    events = events_of([*values, *texts])
    message = adapter.encode_ui_message(events, UIRequest())

    parsed = ui_message.read([message])

    assert [(one.role, one.parts) for one in parsed] == [(one.role, one.parts) for one in fold(events).messages]

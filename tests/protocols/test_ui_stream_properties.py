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

OLD = {"h1": ToolCall(call_id="h1", name="now"), "h2": ToolCall(call_id="h2", name="now", arguments="{")}
HISTORY = [Message.assistant(*OLD.values())]

clients = st.builds(
    UIRequest,
    version=st.sampled_from([5, 6, 7]),
    message=st.none() | st.just("m7"),
    shown=st.sampled_from([{}, {"h1": True}, {"h1": False, "h2": True}, {"c1": True, "c2": False}]),
    waiting=st.just(OLD),
    tools=st.sampled_from([frozenset[str](), frozenset({"now"})]),
)
asked = st.builds(
    lambda call_id: Data(name="approval-request", value={"id": f"ask {call_id}", "call_id": call_id}),
    st.sampled_from(["c1", "c2", "h1", "nobody", None]),
)
AGAIN = Data(name="approval-request", value={"id": "ask", "call_id": "h1"})
answers = st.sampled_from([ToolResult(call_id="h1", output=1), ToolResult(call_id="h2", output="no", is_error=True)])
at_once = [ToolCall(call_id=f"p{number}", name="now") for number in range(3)]
answered = st.permutations([*(ToolResult(call_id=call.call_id) for call in at_once), "Wait.", Text(text="Done.")])
parallel = answered.map(lambda given: [*at_once, *given])
"""Calls made together, and something said between their results."""
mixed = st.lists(sloppy | st.lists(asked | answers, min_size=1, max_size=1), max_size=4).map(
    lambda chunks: [*chain(*chunks)]
)
producers: st.SearchStrategy[list[Any]] = st.one_of(sloppy, hostile, mixed, parallel)


def events_of(values: Sequence[Any], end: TerminalEvent | None = None) -> list[Event]:
    """What the engine would tell of a producer that gives these values."""
    grammar = Grammar(RUN, history=HISTORY)
    events: list[Event] = [*grammar.start(RunStarted(run_id=RUN, session="s-1"))]
    try:
        for value in values:
            events += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    except BadStream as error:
        end = RunFailed(code=error.code, message=error.message)
    return [*events, *grammar.end(end or grammar.ending or RunFinished())]


def streamed(events: Sequence[Event], client: UIRequest) -> list[UiPart]:
    """The parts as they arrive, through the frames."""
    reader, writer = EventStreamDecoder(max_bytes=2**30), UIStreamEncoder(client)
    *frames, finished = [data for event in events for data in reader.feed(writer.encode(event))]
    assert finished == b"[DONE]"
    return [msgspec.json.decode(frame) for frame in frames]


class StrictClient:
    """What AI SDK 5 to 7 do with the parts, with every rule of the stream as an assertion."""

    def __init__(self, client: UIRequest) -> None:
        self.started = self.ended = False
        self.open: dict[str, list[str]] = {}
        self.used: set[str] = set()
        self.kinds: dict[str, str] = {}
        self.texts: list[tuple[str, list[str]]] = []
        self.step: set[str] = set()
        """The calls of this step,"""
        self.calls: dict[str, UiPart] = {}
        """and all of them, with their inputs and their results."""
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


def said_by(events: Sequence[Event], kind: type[Text | Reasoning | Refusal]) -> list[str]:
    """What the fold says in parts of that kind, sorted: a client puts interleaved parts in another order."""
    parts: list[Part] = [part for message in fold(events).messages for part in message.parts]
    return sorted(char for part in parts if isinstance(part, kind) for char in part.text)


@given(producers, clients)
@example([ToolResult(call_id="h2", output=1), ToolCall(call_id="h2", name="now")], UIRequest(waiting=OLD))
@example([AGAIN, ToolCall(call_id="h1", name="now")], UIRequest(waiting=OLD))
@example([ToolCall(call_id="c1", name="now"), ToolResult(call_id="c1", output=1)], UIRequest(shown={"c1": True}))
def test_every_stream_is_in_order_and_says_what_the_fold_says(values: Sequence[Any], client: UIRequest) -> None:
    _check(events_of(values), client)


@given(producers, terminals, clients)
def test_so_it_is_however_the_run_ends(values: Sequence[Any], end: TerminalEvent, client: UIRequest) -> None:
    _check(events_of(values, end), client)


def _check(events: Sequence[Event], client: UIRequest) -> None:
    reader = StrictClient(client)
    parts = streamed(events, client)
    for part in parts:
        reader.take(part)

    assert reader.ended
    assert [part["type"] for part in parts[:2]] == ["start", "start-step"]
    # What was said: texts of the value aside, which is no message.
    of_value = {part["id"] for part in parts if part["type"] == "text-start" and part["id"].endswith("_output")}
    dialect = [(kind, char) for kind, pieces in reader.texts for char in "".join(pieces)]
    for kind, ours in (("text", Text), ("reasoning", Reasoning), ("refusal", Refusal)):
        if not (kind == "text" and of_value):
            assert sorted(char for texts, char in dialect if texts == kind) == said_by(events, ours)
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
        call_id if _of_history(call_id, events) else output[call_id]: (_words(one), one.is_error)
        for call_id, one in results.items()
    }
    assert {name: call["result"] for name, call in reader.calls.items() if "result" in call} == answers


def _of_history(call_id: str, events: Sequence[Event]) -> bool:
    """Does the run answer a call that it had not made itself by then?"""
    kinds = [type(event) for event in events if getattr(event, "call_id", None) == call_id]
    return kinds[0] is ToolReturned


def _words(result: ToolResult) -> Any:
    if not result.is_error or isinstance(result.output, str):
        return result.output
    return msgspec.json.encode(result.output).decode()


@given(producers, terminals, clients)
def test_the_whole_message_is_built_from_the_same_parts(
    values: Sequence[Any], end: TerminalEvent, client: UIRequest
) -> None:
    events = events_of(values, end)
    alone = msgspec.structs.replace(client, message=None, shown={})

    assert adapter.encode_ui_message(events, client) == adapter.join_ui_parts(streamed(events, alone))


@given(producers, clients)
def test_a_stream_encoded_twice_gives_the_same_bytes(values: Sequence[Any], client: UIRequest) -> None:
    events = events_of(values)
    once, repeated = UIStreamEncoder(client), UIStreamEncoder(client, start_at_once=False)

    assert b"".join(map(once.encode, events)) == b"".join(map(repeated.encode, events))


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3), st.integers(0, 2))
def test_what_a_client_sends_back_is_what_was_said(texts: list[str], rounds: int) -> None:
    values: list[Any] = []
    for number in range(rounds):
        values += [texts[0], ToolCall(call_id=f"c{number}", name="now", arguments="{}")]
        values.append(ToolResult(call_id=f"c{number}", output={"n": number}))
    events = events_of([*values, *texts])
    message = adapter.encode_ui_message(events, UIRequest())

    sent = ui_message.read([message])

    assert [(one.role, one.parts) for one in sent] == [(one.role, one.parts) for one in fold(events).messages]

"""Convert LangChain's messages and streams to the Responses API, without a server.

    items = message_to_items(AIMessage("Hello."))
    async for event in stream_to_responses(agent.astream({"messages": …}, stream_mode="messages")): …

Uses the same grammar and encoder as /v1/responses.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from palaver.core import json
from palaver.core.events import Event, RunFailed, RunFinished, RunStarted, TerminalEvent
from palaver.core.grammar import Grammar, OutputValue
from palaver.core.json import dict_or_empty
from palaver.core.messages import Message, ToolCall
from palaver.errors import PalaverError, WorkflowFailed
from palaver.frameworks.langchain.graph import GraphStreamReader
from palaver.frameworks.langchain.stream import MessageStream
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses.request import Profile, ResponsesRequest

log = logging.getLogger("palaver.langchain")


def message_to_items(message: Any, *, profile: Profile = "open") -> list[dict[str, Any]]:
    """Convert a LangChain message to Responses items, in order; user and system messages have none.

    Item ids are derived from the id of the message; without one, they are generated.
    """
    pending_ids = [str(call_id)] if (call_id := getattr(message, "tool_call_id", None)) else []
    history = [Message.assistant(*[ToolCall(call_id=pending_id, name="") for pending_id in pending_ids])]
    run = _LocalRun(history)
    stream = MessageStream(pending=pending_ids)
    events = [*run.start(), *run.feed(stream.feed(message)), *run.feed(stream.end()), *run.end()]
    response = responses.encode_response(events, ResponsesRequest(profile=profile, stored=False), status=200)
    return json.decode(response.body)["output"]


async def stream_to_responses(
    stream: AsyncIterable[Any] | Iterable[Any], *, profile: Profile = "open", model: str = "langchain"
) -> AsyncGenerator[dict[str, Any], None]:
    """Convert a LangChain stream to Responses events, from `response.created` to the terminal one.

    The stream may yield messages or chunks, with or without metadata (`stream_mode="messages"`), updates of a graph,
    several stream modes together, with or without subgraphs, or events of `astream_events`. If the stream raises, the
    response ends as failed, and the exception is logged.
    """
    run = _LocalRun()
    request = ResponsesRequest(profile=profile, model=model, workflow=model, stream=True, stored=False)
    encode = responses.stream_encoder(request)
    async with aclosing(_event_batches(stream, run)) as batches:
        async for batch in batches:
            for event in batch:
                for frame in _decode_frames(encode(event)):
                    yield frame


async def _event_batches(
    stream: AsyncIterable[Any] | Iterable[Any], run: "_LocalRun"
) -> AsyncGenerator[Sequence[Event], None]:
    """Yield the events of a stream in batches; the last one always ends the run."""
    yield run.start()
    reader = _StreamReader()
    failure = None
    try:
        async with aclosing(_iterate_stream(stream)) as values:
            async for value in values:
                yield run.feed(reader.feed(value))
        yield run.feed(reader.end())
    except PalaverError as error:
        failure = RunFailed(code=error.code, message=error.message)
    except Exception:
        log.exception("A LangChain stream failed (%s).", run.id)
        failure = RunFailed(code=WorkflowFailed.code, message=f"The stream failed ({run.id}).")
    yield run.end(failure)


async def _iterate_stream(stream: AsyncIterable[Any] | Iterable[Any]) -> AsyncGenerator[Any, None]:
    if not isinstance(stream, AsyncIterable):
        for value in stream:
            yield value
        return
    iterator = aiter(stream)
    try:
        async for value in iterator:
            yield value
    finally:
        if close := getattr(iterator, "aclose", None):
            await close()


def _decode_frames(frames: bytes) -> Iterator[dict[str, Any]]:
    for line in frames.split(b"\n"):
        data = line.removeprefix(b"data: ")
        if data is not line and data != b"[DONE]":
            yield json.decode(data)


class _LocalRun:
    def __init__(self, history: Sequence[Message] = ()) -> None:
        self.id = f"run_{uuid4().hex[:26]}"
        self._grammar = Grammar(self.id, history=history)

    def start(self) -> Sequence[Event]:
        return self._grammar.start(RunStarted(run_id=self.id, at=datetime.now(UTC)))

    def feed(self, outputs: Iterable[OutputValue]) -> Sequence[Event]:
        return [event for value in outputs for event in self._grammar.feed(value)]

    def end(self, terminal: TerminalEvent | None = None) -> Sequence[Event]:
        last = terminal or self._grammar.ending or RunFinished()
        return self._grammar.end(last, at=datetime.now(UTC))


class _StreamReader:
    """Recognizes LangChain's kinds of streams by their values."""

    def __init__(self) -> None:
        self._reader: GraphStreamReader | None = None

    def feed(self, value: Any) -> Iterable[OutputValue]:
        if self._reader is None:
            # Plain messages are all different; a graph may stream the same one in two modes or from two nodes.
            is_plain = isinstance(value, list) or hasattr(value, "type")
            self._reader = GraphStreamReader(repeats="keep" if is_plain else "complete")
        return self._read(value, self._reader)

    def end(self) -> Iterable[OutputValue]:
        return self._reader.end() if self._reader else ()

    def _read(self, value: Any, reader: GraphStreamReader) -> Iterable[OutputValue]:
        match value:
            case (tuple(), str(mode), payload):
                return reader.feed(value[0], mode, payload)
            case (str(mode), payload):
                return reader.feed((), mode, payload)
            case (_, dict()):
                return reader.feed((), "messages", value)
            case {"event": str(kind), "data": dict(), "run_id": str(run_id)}:
                return _feed_callback_event(kind, dict_or_empty(value["data"]), run_id, reader)
            case dict():
                return reader.feed((), "updates", value)
            case list():
                return [output for message in cast("list[Any]", value) for output in reader.stream.feed(message)]
            case _:
                return reader.stream.feed(value)


def _feed_callback_event(
    kind: str, data: Mapping[str, Any], run_id: str, reader: GraphStreamReader
) -> Iterable[OutputValue]:
    match kind:
        case "on_chat_model_stream":
            return reader.stream.feed(data["chunk"], branch=run_id)
        case "on_chat_model_end":
            return reader.stream.feed(data["output"], branch=run_id)
        case "on_tool_end" if getattr(data.get("output"), "type", None) == "tool":
            return reader.stream.feed(data["output"])
        case _:
            return ()

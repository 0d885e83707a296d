"""Streams that pass every mandatory rule are accepted by the official clients, even after random changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.conform import Protocol, grade
from tests.conform import streams
from tests.conform.streams import Frame, renumber, sse
from tests.conform.test_properties import changed_frames, corrupted_frames

# The openai package does not know Palaver's item types: it passes them on, and pydantic warns about it.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


@contextmanager
def openai_client(stream: bytes) -> Iterator[openai.OpenAI]:
    """The official client, connected to a fake server that answers every request with this stream."""
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    )
    with httpx2.Client(transport=transport) as http:
        yield openai.OpenAI(base_url="http://localhost/v1", api_key="-", http_client=http, max_retries=0)


def read_responses(stream: bytes) -> None:
    with openai_client(stream) as sdk, sdk.responses.stream(model="m", input="Hi") as events:
        for _ in events:
            pass
        events.get_final_response()


def read_completions(stream: bytes) -> None:
    with (
        openai_client(stream) as sdk,
        sdk.chat.completions.stream(model="m", messages=[{"role": "user", "content": "Hi"}]) as events,
    ):
        for _ in events:
            pass
        events.get_final_completion()


READERS: dict[Protocol, tuple[list[Frame], Callable[[bytes], None]]] = {
    "responses": (streams.EVERYTHING, read_responses),
    "chat-completions": (streams.CHAT_WITH_USAGE, read_completions),
}


@pytest.mark.parametrize("protocol", READERS)
@given(data=st.data())
def test_official_client_accepts_every_stream_without_must_violations(protocol: Protocol, data: st.DataObject) -> None:
    frames, read = READERS[protocol]
    changed = data.draw(changed_frames(frames) | corrupted_frames(frames))
    stream = sse(renumber(changed) if protocol == "responses" else changed, protocol)

    if grade(stream, protocol, strict=False).ok:
        read(stream)


@pytest.mark.parametrize("protocol", READERS)
def test_official_client_accepts_a_valid_stream(protocol: Protocol) -> None:
    frames, read = READERS[protocol]

    read(sse(frames, protocol))

"""examples/remote_service.py: a workflow in another process, called through this one; and unreachable."""

from pathlib import Path

import pytest

from palaver.testing import client
from tests.examples.conftest import EXAMPLES, Example
from tests.examples.server_calls import complete_chat, invoke, stream_chat, user
from tests.server_process import server_process

NAMES = ("far_storyteller", "model_storyteller")
STORY = "Once there was a goose. Nobody believed in a goose, until it rained. Then everybody did."
FIRST, *WORDS = STORY.split(" ")
QUESTION = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "a goose"}]}


async def test_a_remote_service_answers_over_invoke_chat_completions_and_ui_stream(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (EXAMPLES / "streaming_generator.py").read_text("utf-8").replace("= 0.05", "= 0.0")  # No pauses here.
    with server_process(tmp_path, source, db=str(tmp_path / "far.db")) as remote:
        monkeypatch.setenv("STORYTELLER_URL", remote.url)
        connected = example("remote_service")
        async with client(*connected) as http:
            invoked = [await invoke(http, name, "a goose") for name in NAMES]
            completed = [await complete_chat(http, name, "a goose") for name in NAMES]
            streams = [await stream_chat(http, name, QUESTION) for name in NAMES]

    assert invoked == [{"role": "assistant", "content": STORY}] * 2
    assert completed == [(STORY, "stop")] * 2
    for parts in streams:
        deltas = [part["delta"] for part in parts if part["type"] == "text-delta"]
        assert deltas == [FIRST, *(f" {word}" for word in WORDS)]
    assert [(one.description.name, one.description.parameters) for one in connected] == [
        ("far_storyteller", {"pause": 0.0}),  # Described by the service itself.
        ("model_storyteller", {}),  # Declared here: this service does not describe itself.
    ]


async def test_an_unreachable_service_is_answered_with_502(
    example: Example, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORYTELLER_URL", f"http://127.0.0.1:{unused_port}")
    async with client(*example("remote_service")) as http:
        responses = [await http.post(f"/{name}/invoke", json={"messages": [user("a goose")]}) for name in NAMES]

    assert [answer.status_code for answer in responses] == [502, 502]
    assert [answer.json()["status"]["message"] for answer in responses] == [
        "far_storyteller could not be reached.",
        "model_storyteller could not be reached.",
    ]

"""`useChat` with `resume: true`: an answer survives a page reload, and can be stopped afterwards.

The AI SDK's own chat and transport run in Node, without React and without a browser. A reload is a dropped connection
and a new chat with the same id that resumes, as in the hook.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.conformance.node_drivers import Driver
from tests.conformance.stored_server import StoredServer

Reload = Callable[..., dict[str, Any]]
VERSIONS = ("ai5", "ai6", "ai7")


@pytest.fixture
def reload(keeper: StoredServer, drivers: Callable[[str], Driver]) -> Reload:
    def reloaded(way: str, gate: str, **more: str) -> dict[str, Any]:
        built = drivers("reload").ask(
            way=way, url=keeper.url, key=keeper.key, workflow="gated", chat=f"chat-{gate}", gate=gate, **more
        )
        assert built["error"] is None
        return built

    return reloaded


@pytest.mark.parametrize("keeps", ["question", "all"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_continues_after_a_reload(version: str, keeps: str, reload: Reload) -> None:
    gate = uuid4().hex

    built = reload(version, gate, keeps=keeps, then="open")

    assert built["status"] == "streaming"
    assert (built["text"], built["finish"]) == ([gate, "One. Two."], "stop")
    assert built["same"], "the message has the id that it had before"
    assert (built["next"], built["third"]) == (204, built["text"])
    assert built["afterwards"] == "One. Two."


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stop_request_cancels_the_run_and_ends_the_stream(version: str, reload: Reload) -> None:
    gate = uuid4().hex

    built = reload(f"{version} stop", gate)

    assert (built["stopped"], built["status"]) == (204, "ready")
    assert built["text"] == [gate, "One. "]
    assert built["next"] == 204, "nothing is running"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_can_be_stopped_after_a_reload(version: str, reload: Reload) -> None:
    gate = uuid4().hex

    built = reload(version, gate, keeps="question", then="stop")

    assert built["stopped"] == 204
    assert built["text"] == [gate, "One. "], "what was said stays"
    assert built["same"]
    assert (built["next"], built["third"]) == (204, built["text"])
    assert built["afterwards"] == "One. Two."

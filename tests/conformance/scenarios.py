"""Scripts for a workflow, and what a client that loses nothing builds from each."""

import json
from dataclasses import dataclass, field
from typing import Any

Step = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClientResult:
    """The result of a client, independent of client and protocol."""

    text: list[str] = field(default_factory=list[str])
    """The text of each message that has text."""
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """`id`, `name` and the parsed `arguments` of every tool call."""
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """`id` of the call and `output`."""
    reasoning: str = ""
    usage: tuple[int, int] | None = None
    """Tokens in, tokens out."""
    finish: str | None = "stop"
    """Palaver's finish reason; `error` after a failure."""
    error: tuple[str | None, str] | None = None
    """Code and message."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A script for the scripted workflow, and the expected result."""

    script: list[Step]
    built: ClientResult
    workflow: str = "scripted"
    refused: bool = False
    """No run starts: the request itself is answered with an error."""

    @property
    def prompt(self) -> str:
        """The script as a user message, which every client can send."""
        return json.dumps(self.script)


def call(name: str, *, id: str, **arguments: object) -> Step:
    return {"tool_call": {"name": name, "id": id, "arguments": arguments}}


def result(id: str, output: object) -> Step:
    return {"tool_result": {"id": id, "output": output}}


FAIL: Step = {"fail": {"code": "model_down", "message": "The model is down."}}
MODEL_DOWN = ("model_down", "The model is down.")
NON_BMP_TEXT = "𝄞 clef, 👩🏽‍🚀 crew, 𠜎 word, e\u0301 joined, \x7f end"

SCENARIOS = {
    "text": Scenario(
        script=[{"text": "Hello "}, {"text": "world."}],
        built=ClientResult(text=["Hello world."]),
    ),
    "text, a tool, text": Scenario(
        script=[
            {"text": "Let me check."},
            call("get_time", id="c1", tz="UTC"),
            result("c1", "12:00"),
            {"text": "It is "},
            {"text": "noon."},
        ],
        built=ClientResult(
            text=["Let me check.", "It is noon."],
            calls=[{"id": "c1", "name": "get_time", "arguments": {"tz": "UTC"}}],
            results=[{"id": "c1", "output": "12:00"}],
        ),
    ),
    "parallel tools": Scenario(
        script=[
            call("get_time", id="c1", tz="UTC"),
            call("get_weather", id="c2", city="Zürich", days=[1, 2]),
            result("c2", {"sky": "blue"}),
            result("c1", "12:00"),
            {"text": "Noon, and the sky is blue."},
        ],
        built=ClientResult(
            text=["Noon, and the sky is blue."],
            calls=[
                {"id": "c1", "name": "get_time", "arguments": {"tz": "UTC"}},
                {"id": "c2", "name": "get_weather", "arguments": {"city": "Zürich", "days": [1, 2]}},
            ],
            results=[{"id": "c2", "output": {"sky": "blue"}}, {"id": "c1", "output": "12:00"}],
        ),
    ),
    "a call left to the client": Scenario(
        script=[{"text": "Please look."}, call("look_up", id="c1", word="palaver")],
        built=ClientResult(
            text=["Please look."],
            calls=[{"id": "c1", "name": "look_up", "arguments": {"word": "palaver"}}],
            finish="tool-calls",
        ),
    ),
    "reasoning": Scenario(
        script=[{"reasoning": "Two and "}, {"reasoning": "two."}, {"text": "Four."}],
        built=ClientResult(text=["Four."], reasoning="Two and two."),
    ),
    "usage": Scenario(
        script=[
            {"usage": {"input_tokens": 3, "output_tokens": 4}},
            {"text": "Counted."},
            {"usage": {"input_tokens": 10, "output_tokens": 1}},
        ],
        built=ClientResult(text=["Counted."], usage=(13, 5)),
    ),
    "cut off": Scenario(
        script=[{"text": "It goes on and"}, {"finish": "length"}],
        built=ClientResult(text=["It goes on and"], finish="length"),
    ),
    "refused": Scenario(
        script=[{"text": "never said"}],
        workflow="nobody",
        refused=True,
        built=ClientResult(finish="error", error=("model_not_found", "Workflow 'nobody' not found.")),
    ),
    "failure before anything was said": Scenario(
        script=[FAIL],
        built=ClientResult(finish="error", error=MODEL_DOWN),
    ),
    "failure in the middle": Scenario(
        script=[{"text": "I was about to"}, FAIL, {"text": "never said"}],
        built=ClientResult(text=["I was about to"], finish="error", error=MODEL_DOWN),
    ),
    "beyond the BMP": Scenario(
        script=[
            {"text": NON_BMP_TEXT[:1]},
            {"text": NON_BMP_TEXT[1:]},
            call("sing", id="c1", note="𝄞", crew="👩🏽‍🚀"),
            result("c1", "🎶 𠜎"),
        ],
        built=ClientResult(
            text=[NON_BMP_TEXT],
            calls=[{"id": "c1", "name": "sing", "arguments": {"note": "𝄞", "crew": "👩🏽‍🚀"}}],
            results=[{"id": "c1", "output": "🎶 𠜎"}],
        ),
    ),
    "what some take for ends of lines": Scenario(
        # Python's splitlines() does, and with it more than one reader of server-sent events.
        script=[{"text": "one\u2028two\u2029"}, {"text": "three\x85four\r\nfive"}],
        built=ClientResult(text=["one\u2028two\u2029three\x85four\r\nfive"]),
    ),
    "2,000 deltas": Scenario(
        script=[{"repeat": {"times": 2_000, "steps": [{"text": "word "}]}}],
        built=ClientResult(text=["word " * 2_000]),
    ),
    "an empty answer": Scenario(script=[], built=ClientResult()),
}

LONG_RUN = Scenario(script=[{"text": "One."}, {"sleep": 60}, {"text": "never said"}], built=ClientResult(text=["One."]))
"""Sends one word and would continue for a minute: for disconnecting clients."""

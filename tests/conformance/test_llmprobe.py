"""llmprobe, a conformance suite for inference engines, passes for the features that Palaver supports."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import node_drivers
from tests.server_process import ServerProcess

PROGRAM = Path("node_modules") / "llmprobe" / "bin" / "dist" / "llmprobe.mjs"

NOT_CLAIMED = {
    # Other surfaces than ours.
    "messages",
    "count-tokens",
    "embeddings",
    "completions",
    "images",
    "images-edit",
    "audio-speech",
    "audio-transcriptions",
    # A workflow may have no probabilities to tell; a run is one answer.
    "logprobs",
    "n-choices",
    # llmprobe cannot test it, or did not at this depth.
    "mcp-tools",
    "prompt-caching",
    # Limits are the operator's.
    "rate-limiting",
}


@pytest.fixture(scope="module")
def report(server: ServerProcess) -> dict[str, Any]:
    ran = node_drivers.run_node(
        PROGRAM,
        f"{server.url}/probed/v1",
        *("--model", "probed"),
        *("--reasoning", "default"),
        "--json",
        "--no-bench",
        "--no-save",
        "--no-color",
    )
    return json.loads(ran.stdout)


def test_all_that_must_hold_holds(report: dict[str, Any]) -> None:
    failures = [failure for result in report["conformance"]["results"] for failure in result["failures"]]

    assert failures == []
    assert report["conformance"]["pct"] == 100
    assert {surface["surface"] for surface in report["conformance"]["bySurface"]} == {"models", "chat", "responses"}


def test_nothing_was_left_unsaid(report: dict[str, Any]) -> None:
    assert report["conformance"]["inconclusive"] == []


def test_all_but_what_we_do_not_claim_is_there(report: dict[str, Any]) -> None:
    missing = {entry["id"] for entry in report["coverage"]["entries"] if not entry["supported"]}

    assert missing == NOT_CLAIMED

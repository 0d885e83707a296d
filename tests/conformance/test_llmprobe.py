"""llmprobe, a conformance suite for inference engines, passes for the features that Palaver supports."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import node_drivers
from tests.server_process import ServerProcess

PROGRAM = Path("node_modules") / "llmprobe" / "bin" / "dist" / "llmprobe.mjs"

NOT_CLAIMED = {
    # API surfaces that Palaver does not have.
    "messages",
    "count-tokens",
    "embeddings",
    "completions",
    "images",
    "images-edit",
    "audio-speech",
    "audio-transcriptions",
    # A workflow may have no log probabilities; a run has one answer.
    "logprobs",
    "n-choices",
    # llmprobe cannot test it, or did not at this depth.
    "mcp-tools",
    "prompt-caching",
    # Limits are configured by the operator.
    "rate-limiting",
}


@pytest.fixture(scope="module")
def report(server: ServerProcess) -> dict[str, Any]:
    completed = node_drivers.run_node(
        PROGRAM,
        f"{server.url}/probed/v1",
        *("--model", "probed"),
        *("--reasoning", "default"),
        "--json",
        "--no-bench",
        "--no-save",
        "--no-color",
    )
    return json.loads(completed.stdout)


def test_every_conformance_check_passes(report: dict[str, Any]) -> None:
    failures = [failure for result in report["conformance"]["results"] for failure in result["failures"]]

    assert failures == []
    assert report["conformance"]["pct"] == 100
    assert {surface["surface"] for surface in report["conformance"]["bySurface"]} == {"models", "chat", "responses"}


def test_no_conformance_check_is_inconclusive(report: dict[str, Any]) -> None:
    assert report["conformance"]["inconclusive"] == []


def test_only_unclaimed_features_are_missing(report: dict[str, Any]) -> None:
    missing = {entry["id"] for entry in report["coverage"]["entries"] if not entry["supported"]}

    assert missing == NOT_CLAIMED

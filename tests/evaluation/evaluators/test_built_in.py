"""All built-in evaluators: listed, with a schema each, and none raises on any output of a workflow."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from palaver.evaluation import evaluators
from palaver.evaluation.case import Case
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.evaluators import KEYS, MODULES, built_in
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluator_helpers import answer, score_records

REQUIRED_PARAMETERS: dict[str, dict[str, Any]] = {
    "regex": {"pattern": "x"},
    "json_field_match": {"path": "a"},
    "tool_called": {"names": "f"},
    "tool_arguments": {"tool": "f", "arguments": {"x": 1}},
    "per_turn": {"evaluator": {"key": "contains"}},
    "format": {"json": True, "markdown": "none", "max_chars": 10, "code_blocks": {}},
    "latency_budget": {"max_seconds": 1},
    "cost_budget": {"max_cost": 1},
    "token_budget": {"max_total": 1},
    "llm_judge": {"prompt": "Is {{text}} good?"},
    "webhook": {"url": "https://example.org/score"},
    "combine": {"of": [{"key": "contains"}, {"key": "exact_match"}]},
}
"""Parameters that cannot be left out."""
EXCLUDED_KEYS = {"code", "human"}
"""Evaluators that need code of the project, or answers of reviewers."""

TOOL_CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}
OUTPUTS: list[Any] = [
    "",
    " \n",
    "text",
    None,
    {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
    {"role": "assistant", "content": None, "refusal": "No."},
    {"role": "assistant", "parts": [{"type": "data", "name": "code-edit", "value": None}]},
    {"role": "assistant", "parts": [{"type": "data", "name": "code-edit", "value": {"edits": 5}}]},
    [1, None, {"a": [{}]}],
    "[" * 300,
    "\ud800",
    "```json\n{\n",
]
EXPECTED: list[dict[str, Any]] = [
    {},
    *({"expected": one} for one in ("", "text", None, 5, [], {}, ["x"], {"a": {"b": []}})),
]
LIST_LOADED_MODULES = """
import sys
from palaver.evaluation.evaluators import built_in
assert len(built_in()) == len(list(built_in())) and "regex" in built_in()
print(*sorted(name for name in sys.modules if name.startswith("palaver.evaluation.evaluators.")))
"""


def test_every_evaluator_of_every_module_is_in_the_table() -> None:
    names = {path.stem for path in Path(evaluators.__file__).parent.glob("*.py")} - {"__init__"}
    modules = {name: import_module(f"{evaluators.__name__}.{name}") for name in names}
    declared = {
        (one.key, name)
        for name, module in modules.items()
        for one in vars(module).values()
        if isinstance(one, Evaluator) and one.function.__module__ == module.__name__
    }

    assert declared == set(MODULES.items())
    assert len(KEYS) == len(declared)


def test_listing_the_evaluators_loads_none_of_their_modules() -> None:
    run = subprocess.run([sys.executable, "-c", LIST_LOADED_MODULES], capture_output=True, text=True, check=True)

    assert run.stdout.split() == []


@pytest.mark.parametrize("key", KEYS)
def test_each_evaluator_has_a_title_a_description_and_a_valid_schema(key: str) -> None:
    one = built_in()[key]

    assert (one.key, one is built_in()[key]) == (key, True)
    assert one.title
    assert one.description.endswith(".")
    assert one.schema["type"] == "object"
    assert one.schema["additionalProperties"] is False
    Draft202012Validator.check_schema(one.schema)
    assert {"threshold", "name"} <= one.schema["properties"].keys()


def test_an_unknown_key_raises_key_error() -> None:
    with pytest.raises(KeyError):
        built_in()["os"]


@pytest.mark.parametrize("key", [key for key in KEYS if key not in EXCLUDED_KEYS])
@pytest.mark.parametrize("is_chat", [True, False])
async def test_no_evaluator_fails_on_any_workflow_output(key: str, is_chat: bool) -> None:
    bound = built_in()[key].bind(REQUIRED_PARAMETERS.get(key, {}), OfflineContext())
    cases: list[Case] = [answer(output, is_chat=is_chat, **expected) for output in OUTPUTS for expected in EXPECTED]

    failed = [one.reason for case in cases for one in await bound.score(case) if "evaluator_failed" in one.reason]

    assert failed == []


TEXT_EVALUATORS = [
    "regex",
    "starts_with",
    "ends_with",
    "contains",
    "contains_any",
    "contains_all",
    "contains_json",
    "format",
]


@pytest.mark.parametrize("key", [*TEXT_EVALUATORS, "exact_match", "levenshtein", "similarity", "semantic_similarity"])
@pytest.mark.parametrize("output", ["", None, " ", {"role": "assistant", "content": None, "refusal": "No."}], ids=repr)
async def test_text_evaluators_do_not_pass_answers_without_text(key: str, output: Any) -> None:
    (one,) = await score_records(key, answer(output, expected="expected words"), **REQUIRED_PARAMETERS.get(key, {}))

    note = "refusal" if isinstance(output, dict) else "empty"
    assert (one.status, one.passed) == ("scored", False)
    assert one.reason.endswith(note)

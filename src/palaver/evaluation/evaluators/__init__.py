"""The built-in evaluators, one file each, made with the same decorator that authors have.

Each is loaded when it is first asked for: some stand on libraries that take their time.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from palaver.evaluation.scoring.evaluator import Evaluator

KEYS: tuple[str, ...] = (
    "exact_match",
    "regex",
    "starts_with",
    "ends_with",
    "contains",
    "contains_any",
    "contains_all",
    "contains_json",
    "json_field_match",
    "json_multi_field_match",
    "json_diff",
    "levenshtein",
    "similarity",
    "semantic_similarity",
    "llm_judge",
    "webhook",
    "code",
    "tool_called",
    "tool_not_called",
    "tool_arguments",
    "tool_sequence",
    "tool_arguments_valid",
    "no_repeated_tool_call",
    "tool_results_used",
    "turn_expectations",
    "per_turn",
    "goal_reached",
    "refusal",
    "format",
    "latency_budget",
    "cost_budget",
    "token_budget",
    "citations",
    "code_edit",
    "combine",
    "human",
)
"""In the order in which people are shown them. `evaluators/<key>.py` has the function of that name."""


class _BuiltIn(Mapping[str, Evaluator]):
    """By key; a file is loaded when its evaluator is looked up."""

    def __getitem__(self, key: str) -> Evaluator:
        if key not in KEYS:
            raise KeyError(key)
        return _loaded(key)

    def __contains__(self, key: object) -> bool:
        return key in KEYS  # Without loading it.

    def __iter__(self) -> Iterator[str]:
        return iter(KEYS)

    def __len__(self) -> int:
        return len(KEYS)


def built_in() -> Mapping[str, Evaluator]:
    """All of them, by key."""
    return _BuiltIn()


@cache
def _loaded(key: str) -> Evaluator:
    # The key is one of the table above, never what somebody sent.
    return vars(import_module(f"{__name__}.{key}"))[key]

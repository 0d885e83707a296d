"""The built-in evaluators, made with the same decorator as custom ones.

    budgets              latency_budget, cost_budget, token_budget
    citations            citations
    code_edit            code_edit
    composite            combine, per_turn, code
    expected_tool_calls  how calls match expected calls
    expectations         turn_expectations, and the checks of a script's `expect`
    json                 contains_json, json_field_match, json_multi_field_match, json_diff
    judges               llm_judge, goal_reached, human
    refusal              refusal
    text                 exact_match, starts_with, ends_with, contains, contains_any, contains_all, regex, format,
                         levenshtein, similarity, semantic_similarity
    tools                tool_called, tool_not_called, tool_arguments, tool_sequence, and others on tool calls
    webhook              webhook

A module is loaded when one of its evaluators is first looked up.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from palaver.evaluation.evaluator import Evaluator

MODULES: dict[str, str] = {
    "exact_match": "text",
    "regex": "text",
    "starts_with": "text",
    "ends_with": "text",
    "contains": "text",
    "contains_any": "text",
    "contains_all": "text",
    "contains_json": "json",
    "json_field_match": "json",
    "json_multi_field_match": "json",
    "json_diff": "json",
    "levenshtein": "text",
    "similarity": "text",
    "semantic_similarity": "text",
    "llm_judge": "judges",
    "webhook": "webhook",
    "code": "composite",
    "tool_called": "tools",
    "tool_not_called": "tools",
    "tool_arguments": "tools",
    "tool_sequence": "tools",
    "tool_arguments_valid": "tools",
    "no_repeated_tool_call": "tools",
    "tool_results_used": "tools",
    "turn_expectations": "expectations",
    "per_turn": "composite",
    "goal_reached": "judges",
    "refusal": "refusal",
    "format": "text",
    "latency_budget": "budgets",
    "cost_budget": "budgets",
    "token_budget": "budgets",
    "citations": "citations",
    "code_edit": "code_edit",
    "combine": "composite",
    "human": "judges",
}
"""By key, the module with the function of that name, in the order in which evaluators are listed."""

KEYS: tuple[str, ...] = tuple(MODULES)


class _BuiltInEvaluators(Mapping[str, Evaluator]):
    """Imports a module when one of its evaluators is looked up."""

    def __getitem__(self, key: str) -> Evaluator:
        return _load(key)

    def __contains__(self, key: object) -> bool:
        return key in MODULES  # Without importing the module.

    def __iter__(self) -> Iterator[str]:
        return iter(KEYS)

    def __len__(self) -> int:
        return len(KEYS)


def built_in() -> Mapping[str, Evaluator]:
    return _BuiltInEvaluators()


@cache
def _load(key: str) -> Evaluator:
    # Clients cannot choose the module: its name is in the table.
    return vars(import_module(f"{__name__}.{MODULES[key]}"))[key]

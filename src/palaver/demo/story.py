"""What the demo has to show at first: things said, services asked elsewhere, cases with their answers. All our own."""

from typing import Any

HASTY = {"name": "hasty", "parameters": {"order": "as written"}, "message": "Quicker, but is it right?"}
"""A variant of the calculator, to be compared with its default."""

TALKS: list[tuple[str, str | None, list[str]]] = [
    ("eliza", None, ["Hello!", "I am worried about my release on Friday.", "Because nobody has tested it."]),
    ("eliza", None, ["My boss wants an answer today.", "I don't have one."]),
    ("calculator", None, ["What is (2 + 3) * 4?", "And 100 / 8 - 2?"]),
    ("calculator", None, ["Four people share 7 pizzas of 12.50: 7 * 12.5 / 4", "And what is 10 / 0?"]),
    ("calculator", "hasty", ["What is 2 + 3 * 4?"]),
]
"""Conversations: the workflow, its variant, and what somebody says, turn by turn."""

BOARD: dict[str, Any] = {
    "name": "Two orders of working it out",
    "mode": "chat",
    "columns": [
        {"id": "default", "workflow": "calculator"},
        {"id": "hasty", "workflow": "calculator", "variant": "hasty"},
    ],
    "rows": [{"id": "r1"}, {"id": "r2"}, {"id": "r3"}],
}
"""Two variants side by side in three threads,"""
BOARD_SAYS = {"r1": "2 + 3 * 4", "r2": "(2 + 3) * 4", "r3": "20 - 12 / 4"}
"""and what each thread is asked."""

HEADLINES: dict[str, Any] = {
    "name": "Headlines, in two styles",
    "mode": "single",
    "columns": [
        {"id": "title", "workflow": "headline"},
        {"id": "plain", "workflow": "headline", "parameters": {"style": "plain"}},
    ],
    "rows": [
        {"id": "r1", "inputs": {"text": "The harbour froze over last night. Nobody in the harbour had seen that."}},
        {"id": "r2", "inputs": {"text": "A library lends out umbrellas. Most umbrellas come back dry.", "words": 5}},
    ],
}

_SUMS = """
sum     | 7 + 5              | 12   | add
sum     | 20 - 8             | 12   | subtract
sum     | 1 + 2 + 3          | 6    | add add
sum     | 100 - 1 - 2        | 97   | subtract subtract
sum     | 0.1 + 0.2          | 0.3  | add
product | 6 * 7              | 42   | multiply
product | 81 / 9             | 9    | divide
product | 2 * 3 * 4          | 24   | multiply multiply
product | 9 / 3 * 5          | 15   | divide multiply
product | 1 / 8              | 0.125| divide
bracket | (2 + 3) * 4        | 20   | add multiply
bracket | 4 * (2 + 3)        | 20   | add multiply
bracket | (8 - 6) / 2        | 1    | subtract divide
bracket | (1 + 1) * (2 + 2)  | 8    | add add multiply
bracket | 100 / (4 + 6)      | 10   | add divide
mixed   | 2 + 3 * 4          | 14   | multiply add
mixed   | 20 - 12 / 4        | 17   | divide subtract
mixed   | 1 + 2 * 3 + 4      | 11   | multiply add add
mixed   | 10 - 2 * 3         | 4    | multiply subtract
mixed   | 5 + 10 / 2         | 10   | divide add
mixed   | 3 + 3 * 3          | 12   | multiply add
mixed   | 50 - 5 * 5         | 25   | multiply subtract
mixed   | 1 + 6 / 3          | 3    | divide add
mixed   | 2 * 3 + 4          | 10   | multiply add
"""

SUMS_ARE = "What a pocket calculator should know."
EVALUATORS: list[dict[str, Any]] = [
    {"key": "contains"},
    {"key": "tool_sequence", "parameters": {"expected_from": "tools"}},
    {"key": "latency_budget", "parameters": {"max_seconds": 2}},
]
QUESTIONS: list[dict[str, Any]] = [
    {"key": "clear", "type": "boolean", "title": "Would a child understand it?"},
    {"key": "note", "type": "text", "title": "What would you say instead?", "required": False},
]
"""What people are asked about answers,"""
RULE: dict[str, Any] = {
    "name": "Tools are not called twice",
    "filter": {"field": "workflow", "op": "eq", "value": "calculator"},
    "sample": 1.0,
    "evaluators": [{"key": "no_repeated_tool_call"}],
}
"""and what is asked of those that are given live."""


def sums() -> list[dict[str, Any]]:
    """Cases for the calculator: a question, its answer, the tools that are called for it, and of what kind it is.

    The question stands as messages, as a turn does that somebody adds from the playground.
    """
    table = [[cell.strip() for cell in line.split("|")] for line in _SUMS.strip().splitlines()]
    return [
        {
            "messages": [{"role": "user", "content": f"What is {question}?"}],
            "expected": f"The answer is {answer}.",
            "tools": tools.split(),
            "kind": kind,
        }
        for kind, question, answer, tools in table
    ]

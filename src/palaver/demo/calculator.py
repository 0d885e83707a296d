"""A chat that plans arithmetic, calls a tool for each step, and shows the results. It uses no model."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal

from palaver import Message, Parameter, ToolCall, ToolResult, chat

Step = tuple[str, Decimal | int, Decimal | int]  # A sign and two arguments; an int is the result of that earlier step.
TOOLS = {
    "+": ("add", Decimal.__add__),
    "-": ("subtract", Decimal.__sub__),
    "*": ("multiply", Decimal.__mul__),
    "/": ("divide", Decimal.__truediv__),
}
Order = Annotated[Literal["products first", "as written"], Parameter(description="What is worked out first")]


@chat
def calculator(messages: list[Message], order: Order = "products first") -> Iterator[object]:
    """Works out sums like (2 + 3) * 4, one tool call at a time."""
    question = next((message.text for message in reversed(messages) if message.role == "user"), "")
    tokens = re.findall(r"\d+(?:\.\d+)?|[-+*/()]", question.replace("×", "*").replace("÷", "/"))
    try:
        steps = plan(tokens, first="*/" if order == "products first" else "")
    except (IndexError, ValueError):
        yield "Give me something to work out, such as (2 + 3) * 4."
        return
    yield f"{' '.join(tokens)} takes {len(steps)} step{'s' if len(steps) > 1 else ''}."
    results: list[Decimal] = []
    for number, (sign, left, right) in enumerate(steps):
        name, operation = TOOLS[sign]
        a, b = (results[side] if isinstance(side, int) else side for side in (left, right))
        call = f"call_{len(messages)}_{number}"
        yield ToolCall(call_id=call, name=name, arguments=json.dumps({"a": to_number(a), "b": to_number(b)}))
        try:
            results.append(operation(a, b))
        except ArithmeticError as error:
            yield ToolResult(call_id=call, output=type(error).__name__, is_error=True)
            yield f"I cannot {name} {to_number(a)} by {to_number(b)}, so there is no answer."
            return
        yield ToolResult(call_id=call, output=to_number(results[-1]))
    yield f"The answer is {to_number(results[-1])}."


def plan(tokens: list[str], *, first: str = "*/") -> list[Step]:
    """Return the steps: brackets first, then `first` before other signs. Raises for invalid arithmetic."""
    steps: list[Step] = []
    values: list[Decimal | int] = []
    signs: list[str] = []

    def reduce() -> None:
        right, left = values.pop(), values.pop()
        steps.append((signs.pop(), left, right))
        values.append(len(steps) - 1)

    for token in tokens:
        if token == ")":
            while signs[-1] != "(":
                reduce()
            signs.pop()
        elif token in TOOLS or token == "(":
            while token != "(" and signs and signs[-1] != "(" and (signs[-1] in first) >= (token in first):
                reduce()
            signs.append(token)
        else:
            values.append(Decimal(token))
    while signs:
        reduce()
    if len(values) != 1 or not steps or any(sign == "(" for sign, _, _ in steps) or max(map(len, tokens)) > 15:
        raise ValueError("not arithmetic, or longer than a pocket calculator takes")
    return steps


def to_number(number: Decimal) -> int | float:
    """Return the number as a JSON value."""
    return int(number) if number == number.to_integral_value() else float(number)

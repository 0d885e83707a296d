"""A chat that plans arithmetic, calls a tool for each step, and shows the results. It uses no model."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal

from palaver import Message, Parameter, ToolCall, ToolResult, chat

Step = tuple[str, Decimal | int, Decimal | int]  # Operator and operands; an int stands for the result of that step.
TOOLS = {
    "+": ("add", Decimal.__add__),
    "-": ("subtract", Decimal.__sub__),
    "*": ("multiply", Decimal.__mul__),
    "/": ("divide", Decimal.__truediv__),
}
Order = Annotated[Literal["products first", "as written"], Parameter(description="Order of operations")]


@chat
def calculator(messages: list[Message], order: Order = "products first") -> Iterator[object]:
    """Solves arithmetic like (2 + 3) * 4, one tool call at a time."""
    question = next((message.text for message in reversed(messages) if message.role == "user"), "")
    tokens = re.findall(r"\d+(?:\.\d+)?|[-+*/()]", question.replace("×", "*").replace("÷", "/"))
    try:
        steps = plan(tokens, first="*/" if order == "products first" else "")
    except (IndexError, ValueError):
        yield "Give me something to calculate, such as (2 + 3) * 4."
        return
    yield f"{' '.join(tokens)} takes {len(steps)} step{'s' if len(steps) > 1 else ''}."
    results: list[Decimal] = []
    for number, (operator, left, right) in enumerate(steps):
        name, operation = TOOLS[operator]
        a, b = (results[operand] if isinstance(operand, int) else operand for operand in (left, right))
        call_id = f"call_{len(messages)}_{number}"
        yield ToolCall(call_id=call_id, name=name, arguments=json.dumps({"a": to_number(a), "b": to_number(b)}))
        try:
            results.append(operation(a, b))
        except ArithmeticError as error:
            yield ToolResult(call_id=call_id, output=type(error).__name__, is_error=True)
            yield f"I can't {name} {to_number(a)} by {to_number(b)}."
            return
        yield ToolResult(call_id=call_id, output=to_number(results[-1]))
    yield f"The answer is {to_number(results[-1])}."


def plan(tokens: list[str], *, first: str = "*/") -> list[Step]:
    """Return the steps: brackets first, then the operators in `first`, then the others. Raises for invalid input."""
    steps: list[Step] = []
    values: list[Decimal | int] = []
    operators: list[str] = []

    def reduce() -> None:
        right, left = values.pop(), values.pop()
        steps.append((operators.pop(), left, right))
        values.append(len(steps) - 1)

    for token in tokens:
        if token == ")":
            while operators[-1] != "(":
                reduce()
            operators.pop()
        elif token in TOOLS or token == "(":
            while token != "(" and operators and operators[-1] != "(" and (operators[-1] in first) >= (token in first):
                reduce()
            operators.append(token)
        else:
            values.append(Decimal(token))
    while operators:
        reduce()
    if len(values) != 1 or not steps or any(operator == "(" for operator, _, _ in steps) or max(map(len, tokens)) > 15:
        raise ValueError("not arithmetic, or too long for a pocket calculator")
    return steps


def to_number(number: Decimal) -> int | float:
    """Return the number as a JSON value."""
    return int(number) if number == number.to_integral_value() else float(number)

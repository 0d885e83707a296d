"""A quality gate for CI: a chat, a custom evaluator and a test set; exit code 0 means pass, 1 means fail.

palaver eval examples/scored_tutor.py examples/scored_tutor.jsonl -e contains -e shows_steps --fail-under 0.6
"""

import re
from typing import Annotated

from palaver import Case, Message, Parameter, Score, chat, evaluator

# Compare two variants, and fail if any row regresses in the second:
# palaver eval … -e shows_steps --variant 'long:{}' --variant 'short:{"steps": false}' --max-regressions 0


@chat
async def sums(
    messages: list[Message],
    *,
    steps: Annotated[bool, Parameter(description="Show the calculation.")] = True,
) -> str:
    """Adds the numbers in a question."""
    numbers = [int(number) for number in re.findall(r"\d+", messages[-1].text)]
    if not numbers:
        return "I can only add numbers."
    how = " + ".join(map(str, numbers))
    return f"{how} = {sum(numbers)}" if steps else str(sum(numbers))


@evaluator(title="Shows its steps")
def shows_steps(case: Case, sign: str = "+") -> Score:
    """The answer shows how it was calculated, not just the result."""
    count = case.text.count(sign)
    return Score(passed=count > 0, score=min(1.0, count / 2), reason=f"{sign!r} occurrences: {count}")

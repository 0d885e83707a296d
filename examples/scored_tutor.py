"""A gate for CI: a chat, an evaluator of one's own beside it, and a test set; exit code 0 says good, 1 says worse.

palaver eval examples/scored_tutor.py examples/scored_tutor.jsonl -e contains -e shows_steps --fail-under 0.6
"""

import re
from typing import Annotated

from palaver import Case, Message, Parameter, Score, chat, evaluator

# Compare two variants; no row may get worse in the second:
# palaver eval … -e shows_steps --variant 'long:{}' --variant 'short:{"steps": false}' --max-regressions 0


@chat
async def sums(
    messages: list[Message],
    *,
    steps: Annotated[bool, Parameter(description="Say how it is done.")] = True,
) -> str:
    """Adds the numbers of a question."""
    numbers = [int(number) for number in re.findall(r"\d+", messages[-1].text)]
    if not numbers:
        return "I only know sums."
    how = " + ".join(map(str, numbers))
    return f"{how} = {sum(numbers)}" if steps else str(sum(numbers))


@evaluator(title="Shows its steps")
def shows_steps(case: Case, sign: str = "+") -> Score:
    """The answer says how it was found, not only what it is."""
    count = case.text.count(sign)
    return Score(passed=count > 0, score=min(1.0, count / 2), reason=f"{count} times {sign!r}")

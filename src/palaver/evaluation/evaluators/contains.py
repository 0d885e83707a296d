"""contains: these words are in the text."""

from palaver.evaluation.aim import Aim
from palaver.evaluation.cases import Case
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.needles import Needle, needle
from palaver.evaluation.scores import Score


@evaluator(title="Contains")
async def contains(case: Case, aim: Aim, substring: Needle = None) -> Score:
    """The text contains a substring, by default what is expected."""
    wanted = needle(substring, case, aim)
    if aim.folded(wanted) in aim.folded(aim.text(case)):
        return Score(passed=True)
    return Score(passed=False, reason="it is not in the text")

"""contains: these words are in the text."""

from palaver.evaluation.matching.needles import Needle, needle
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score


@evaluator(title="Contains")
async def contains(case: Case, aim: Aim, substring: Needle = None) -> Score:
    """The text contains a substring, by default what is expected."""
    wanted = needle(substring, case, aim)
    if aim.folded(wanted) in aim.folded(aim.text(case)):
        return Score(passed=True)
    return Score(passed=False, reason="it is not in the text")

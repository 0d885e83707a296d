"""ends_with: the text ends with these words."""

from palaver.evaluation.matching.needles import Needle, needle
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score


@evaluator(title="Ends with")
async def ends_with(case: Case, aim: Aim, suffix: Needle = None) -> Score:
    """The text ends with a suffix, by default with what is expected."""
    wanted = needle(suffix, case, aim)
    if aim.folded(aim.text(case)).endswith(aim.folded(wanted)):
        return Score(passed=True)
    return Score(passed=False, reason="the text does not end with it")

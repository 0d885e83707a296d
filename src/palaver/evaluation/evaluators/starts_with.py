"""starts_with: the text begins with these words."""

from palaver.evaluation.matching.needles import Needle, needle
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score


@evaluator(title="Starts with")
async def starts_with(case: Case, aim: Aim, prefix: Needle = None) -> Score:
    """The text begins with a prefix, by default with what is expected."""
    wanted = needle(prefix, case, aim)
    if aim.folded(aim.text(case)).startswith(aim.folded(wanted)):
        return Score(passed=True)
    return Score(passed=False, reason="the text does not begin with it")

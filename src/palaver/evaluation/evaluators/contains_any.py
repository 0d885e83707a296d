"""contains_any: at least one of these is in the text."""

from palaver.evaluation.matching.needles import Needles, check_needles, found_of, needles
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score


@evaluator(title="Contains any", check=check_needles)
async def contains_any(case: Case, aim: Aim, substrings: Needles = None) -> Score:
    """The text contains at least one of several substrings; the score is the share that it contains."""
    wanted = needles(substrings, case, aim)
    found = found_of(wanted, aim.text(case), aim)
    reason = "" if found else "none of them is in the text"
    return Score(bool(found), len(found) / len(wanted), reason=reason, details={"found": found})

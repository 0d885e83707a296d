"""contains_all: all of these are in the text."""

from palaver.evaluation.matching.needles import Needles, check_needles, found_of, needles
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score


@evaluator(title="Contains all", check=check_needles)
async def contains_all(case: Case, aim: Aim, substrings: Needles = None) -> Score:
    """The text contains each of several substrings; the score is the share that it contains."""
    wanted = needles(substrings, case, aim)
    found = found_of(wanted, aim.text(case), aim)
    missing = [one for one in wanted if one not in found]
    reason = f"not in the text: {', '.join(map(repr, missing))}" if missing else ""
    return Score(not missing, len(found) / len(wanted), reason=reason, details={"found": found, "missing": missing})

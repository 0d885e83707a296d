"""levenshtein: how few letters must be changed to get from the text to what is expected."""

from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator


@evaluator(title="Levenshtein distance", needs={"expected"}, threshold=0.5)
def levenshtein(case: Case, aim: Aim) -> float:
    """1 less the share of letters that must be changed to get from the text to what is expected."""
    from rapidfuzz.distance import Levenshtein

    expected = aim.folded(aim.expected_text(case))
    return Levenshtein.normalized_similarity(aim.folded(aim.text(case)), expected)
